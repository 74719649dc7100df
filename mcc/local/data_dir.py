"""The data directory: made private to its owner, with Flower's login and the database in it."""

import os
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mcc.configuration.places import make_private_directory
from mcc.local.errors import UnusableDatabase, UnusableDirectory
from mcc.redaction import FLOWER_FILE

if TYPE_CHECKING:
    from mcc.configuration.database import DatabaseAccess
    from mcc.settings import ServiceSettings
    from mcc.store.store import Store

FILES = (
    "token",
    "flower.auth",
    "family.json",
    "family.lock",
    "mcc.toml",
    "mcc.db",
    "mcc.db-wal",
    "mcc.db-shm",
    "mcc.db-journal",
)
DIRECTORIES = ("logs", "run", "redis")
"""What MCC makes in a data directory; the rights of anything else there are not changed."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
DEEPEST = 6
FLOWER_USER = "mcc"


def prepare_directory(directory: Path) -> None:
    """Make `directory` (0700) if it does not exist, and check that it can be written. Raises `UnusableDirectory`."""
    try:
        make_private_directory(directory)
        probe = directory / f".probe-{os.getpid()}"
        probe.touch(0o600)
        probe.unlink()
    except OSError as error:
        raise UnusableDirectory(
            f"The data directory {directory} cannot be written ({error.strerror}): "
            "correct its permissions, or name another one with --data-dir or MCC_DATA_DIR."
        ) from error


def make_private(data_dir: Path) -> Sequence[str]:
    """Remove the rights of other users from `data_dir` and from MCC's files in it.

    Answers sentences about a directory that was open, and about files that stay open: symlinks are not followed, files
    of another user are left alone.
    """
    notes: list[str] = []
    with _directory(None, data_dir) as descriptor:
        if _close(descriptor, ".", data_dir, notes):
            notes.append(f"{data_dir} was open to others; now it is yours alone.")
        for name in (*FILES, *DIRECTORIES):
            _close_below(descriptor, name, data_dir / name, notes, DEEPEST if name in DIRECTORIES else 0)
    return notes


def _close_below(parent: int, name: str, path: Path, notes: list[str], depth: int) -> None:
    """Close `path`, and if it is a directory, what is in it, down to `depth` levels."""
    _close(parent, name, path, notes)
    if not depth or not stat.S_ISDIR(_mode(parent, name)):
        return
    try:
        with _directory(parent, path) as directory:
            for inside in os.listdir(directory):
                _close_below(directory, inside, path / inside, notes, depth - 1)
    except OSError as error:
        notes.append(f"{path} could not be looked into: {error.strerror}.")


def _mode(parent: int, name: str) -> int:
    """The mode of a file in a directory; 0 where it cannot be read."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _close(parent: int, name: str, path: Path, notes: list[str]) -> bool:
    """Close `path` to other users; `notes` gets a sentence where it stays open. Answers whether it was changed."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            notes.append(f"{path} is a symlink, so what it leads to is left as it is.")
        elif status.st_mode & OTHERS and status.st_uid != os.geteuid():
            notes.append(f"{path} is open to others and belongs to another user (uid {status.st_uid}): left as it is.")
        elif status.st_mode & OTHERS:
            _remove_rights(parent, name, status)
            return True
    except FileNotFoundError:
        pass
    except OSError as error:
        notes.append(f"{path} is open to others, and that cannot be changed: {error.strerror}.")
    return False


def _remove_rights(parent: int, name: str, found: os.stat_result) -> None:
    """Remove the rights of others from the file that was `found`, not from one that has taken its name since.

    Opened with O_PATH: closing an ordinary descriptor of an SQLite file would give up this process's locks on it.
    """
    if sys.platform != "linux":
        os.chmod(name, stat.S_IMODE(found.st_mode) & ~OTHERS, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        now = os.fstat(descriptor)
        if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(now.st_mode) & ~OTHERS)
    finally:
        os.close(descriptor)


@contextmanager
def _directory(parent: int | None, path: Path) -> Iterator[int]:
    """The descriptor of a directory. With `parent`, the descriptor of the directory above, no symlink is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open(path, flags) if parent is None else os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)


def flower_login(data_dir: Path) -> str:
    """`user:password` of Flower, from its file, which is made (0600) where there is none.

    Two processes that make it at the same time get the same login: the first link wins.
    """
    path = data_dir / FLOWER_FILE
    if login := _text_of(path):
        return login
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{FLOWER_USER}:{secrets.token_urlsafe(24)}\n")
    try:
        if path.exists():
            path.unlink()
        # A link, not a rename: it fails where the other process was faster, instead of replacing its login.
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return _text_of(path)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""


def upgrade_database(access: "DatabaseAccess | str") -> str | None:
    """Migrate the database to this version's schema. Answers what was done as a sentence, None for nothing.

    Raises `UnusableDatabase`.
    """
    from mcc.store.database.errors import StoreError, Unfit
    from mcc.store.database.migrate import schema_problem, upgrade

    problem: str | None = None
    try:
        problem = schema_problem(access)
        if problem is None:
            return None
        upgrade(access)
    except Unfit as error:
        raise UnusableDatabase(f"The database cannot be used: {error}.") from error
    except (StoreError, OSError, ValueError) as error:
        raise UnusableDatabase(
            f"The database cannot be prepared ({error}): is it there, can it be written, does anyone hold it locked?"
        ) from error
    if problem.startswith("the database has no schema"):
        return "A new database was made."
    return f"The database was brought up to date (before: {problem.partition(':')[0]})."


@contextmanager
def opened_store(settings: "ServiceSettings") -> "Iterator[Store]":
    """The store of these settings, for a command that needs no service.

    Raises `BadSettings` for an invalid address, `StoreUnavailable` when there is no database or it has another
    version's schema.
    """
    from mcc.settings import BadSettings
    from mcc.store.database.errors import StoreUnavailable
    from mcc.store.store import open_store

    if settings.has_own_database and not (settings.data_dir / "mcc.db").exists():
        raise StoreUnavailable(f"There is no database in {settings.data_dir}: name another directory with --data-dir.")
    try:
        store = open_store(settings.database)
    except ValueError as error:
        raise BadSettings(f"MCC_DATABASE_URL cannot be used: {error}.") from error
    try:
        if problem := store.schema_problem():
            raise StoreUnavailable(problem)
        yield store
    finally:
        store.close()
