"""The commands `mcc backup` and `mcc restore`: the whole database to one file, and back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import AsJson, DataDir, fail, plain_errors, print_json, print_wrapped
from mcc.view.output import exact_line

if TYPE_CHECKING:
    from mcc.store.upkeep.backup import Contents


def backup(
    file: Annotated[Path, typer.Argument(help="Where to; made for its owner alone.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write orders, sessions, journals, records, documents and kept texts to one file, as they are at this moment.

    The service and its drones may run meanwhile, on SQLite and on PostgreSQL. Not in the file: sign-ins, one-time
    codes, keys, secrets of webhooks and what was sent to them, configuration, workspaces; tokens only as digests.

    Example: mcc backup ~/mcc-$(date +%F).backup
    """
    import mcc
    from mcc.local.data_dir import opened_store
    from mcc.settings import load
    from mcc.store.upkeep.backup import write_backup

    with plain_errors():
        settings = load(data_dir=data_dir)
        if file.exists() and not force:
            fail(f"{file} exists already: name another file, or replace it with --force.")
        with opened_store(settings) as store, _atomic_file(file) as stream:
            contents = write_backup(store.database, stream, mcc.__version__)
    if as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size, **asdict(contents)})
        return
    print_wrapped(exact_line(f"Kept {_row_counts(contents)} in {file} ({file.stat().st_size / 1e6:,.1f} MB)."))


def restore(
    file: Annotated[Path, typer.Argument(help="What mcc backup wrote.")],
    force: Annotated[
        bool, typer.Option("--force", help="Into a database that is not empty: what is in it is lost.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make the database what it was when the backup was made; no service and no drone may work on it.

    It may be another kind of database than the one that was backed up. Orders that had not ended go on as soon as a
    drone is there: be sure that nobody works on them elsewhere.

    Example: MCC_DATABASE_URL=postgresql://mcc@db/mcc mcc restore mcc.backup
    """
    from mcc.local.data_dir import prepare_directory
    from mcc.local.presence import Hold
    from mcc.settings import BadSettings, load
    from mcc.store.database.engine import Database
    from mcc.store.upkeep.backup import BadBackup, OccupiedDatabase
    from mcc.store.upkeep.backup import restore as restored

    with plain_errors():
        settings = load(data_dir=data_dir)
        try:
            stream = file.open("rb")
        except OSError as error:
            fail(f"{file} cannot be read: {error.strerror}.")
        prepare_directory(settings.data_dir)
        hold = Hold.take(settings.data_dir)
        try:
            database = Database(settings.database, connections=1)
        except ValueError as error:
            raise BadSettings(f"MCC_DATABASE_URL cannot be used: {error}.") from error
        try:
            with stream:
                contents = restored(database, stream, force=force)
        except BadBackup as problem:
            fail(f"Nothing was changed: {problem} ({file}).")
        except OccupiedDatabase as problem:
            fail(f"Nothing was changed: {problem}{'' if problem.used else '; --force gives them up'}.")
        finally:
            database.close()
            hold.release()
    if as_json:
        print_json({"file": str(file), **asdict(contents)})
        return
    print_wrapped(f"Restored {_row_counts(contents)}, as of {contents.made_at[:19]}Z.")


def _row_counts(contents: "Contents") -> str:
    names = {"sessions": "sessions", "orders": "orders", "journal": "journal entries", "documents": "documents"}
    names["blobs"] = "texts"
    return ", ".join(f"{contents.rows.get(table, 0):,} {name}" for table, name in names.items())


@contextmanager
def _atomic_file(file: Path) -> Iterator[IO[bytes]]:
    """A file to write that appears under its name only when it is complete and on the disk."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}.")
    finally:
        part.unlink(missing_ok=True)
