"""The command `mcc prune`: removes old journals, deleted documents, and texts and drones that nothing refers to."""

from dataclasses import asdict
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import AsJson, DataDir, clock, fail, plain_errors, print_json, print_wrapped, say

if TYPE_CHECKING:
    from mcc.settings import ServiceSettings
    from mcc.store.store import Store
    from mcc.store.upkeep.retention import Cleared

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
LONGEST = timedelta(days=36_500)
USAGE = 2


def prune(
    older_than: Annotated[
        str | None,
        typer.Option(help="Orders that ended so long ago, as 30d, 12h, 90m or 2w; retention_days if left out."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Make the file of an SQLite database smaller; nothing else may run.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove the journals of orders that ended long ago. Records, answers and sessions stay.

    Also removes documents that were deleted as long ago, texts that nobody needs any more and drones that are long
    gone. A running service does so by itself. Pruned orders can still be shown and retried, not watched again or
    forked. Orders that have not ended are never touched.

    Example: mcc prune --older-than 7d --dry-run
    """
    from mcc.local.data_dir import opened_store
    from mcc.settings import load
    from mcc.store.upkeep.retention import Cleared

    with plain_errors():
        settings = load(data_dir=data_dir)
        age = _age(older_than) if older_than is not None else timedelta(days=settings.retention_days)
        if not age and older_than is None:
            fail("The retention is off (retention_days = 0): say how old with --older-than.", USAGE)
        with opened_store(settings) as store:
            if compact:
                _check_alone(settings, store)
            before = store.database.clock.now().astimezone(UTC) - age
            retention = store.retention
            cleared = retention.look(before) if dry_run else sum(retention.clear(before), Cleared())
            if compact and not dry_run:
                retention.compact()
            size = retention.size()
    if as_json:
        print_json({"before": before.isoformat(), "removed": not dry_run, **asdict(cleared), "database": asdict(size)})
        return
    print_wrapped(_summary(cleared, dry_run=dry_run, before=clock(before)))
    if size.free > size.bytes // 4 and not dry_run:
        say(
            f"{megabytes(size.free)} of the {megabytes(size.bytes)} of the file are free for new orders; "
            "mcc prune --compact, while nothing runs, gives them back to the disk."
        )


def _summary(cleared: "Cleared", *, dry_run: bool, before: str) -> str:
    if not (cleared.orders or cleared.documents or cleared.texts or cleared.files or cleared.drones):
        return f"There is nothing to remove of orders that ended before {before}."
    journals = "the journal of 1 order" if cleared.orders == 1 else f"the journals of {cleared.orders:,} orders"
    what = (
        f"{journals} that ended before {before} ({cleared.entries:,} entries)",
        "1 deleted document" if cleared.documents == 1 else f"{cleared.documents:,} deleted documents",
        f"{cleared.texts:,} texts that nobody needs",
        "1 file that no order needs" if cleared.files == 1 else f"{cleared.files:,} files that no order needs",
        f"{cleared.drones:,} drones that are gone",
    )
    kinds = (cleared.orders, cleared.documents, cleared.texts, cleared.files, cleared.drones)
    listed = ", ".join(words for words, number in zip(what, kinds, strict=True) if number)
    verb = "Would remove" if dry_run else "Removed"
    return f"{verb} {listed}: {megabytes(cleared.bytes)} of text."


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _age(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    try:
        age = float(number) * UNITS[unit]
        if timedelta(0) <= age <= LONGEST:
            return age
    except (KeyError, ValueError, OverflowError):
        pass
    fail(f"--older-than: {text!r} is no age; write 30d, 12h, 90m or 2w.", USAGE)


def _check_alone(settings: "ServiceSettings", store: "Store") -> None:
    from mcc.local.presence import Held, find_family

    if store.database.dialect != "sqlite":
        fail("--compact is for SQLite: PostgreSQL's autovacuum frees what was removed.", USAGE)
    if find_family(settings.data_dir) is not Held.NOBODY:
        fail("--compact rewrites the whole file, and a family runs on it: stop it first, or leave out --compact.")
