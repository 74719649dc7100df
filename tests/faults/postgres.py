"""A PostgreSQL of one's own, which can be stopped, and whose connections can be used up."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.faults.members import until
from tests.ports import free_port

INITDB = shutil.which("initdb") or next(iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))), None)
SETTINGS = {
    "fsync": "off",
    "max_connections": "60",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}
DURABLE = {"fsync": "on"}
"""For a server whose disk fails: otherwise it confirms what it has not written."""


STOP_SECONDS = 20.0
TRIES = 3


class NoPostgres(Exception):
    """None can be made here; the sentence says why."""


class Postgres:
    """A server on a private port; whoever comes over loopback is its owner."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        assert INITDB is not None
        self.data = directory / "data"
        self._log = directory / "log"
        self._settings = {**SETTINGS, **settings}
        self._take_port()
        self._programs = Path(INITDB).resolve().parent

    def make(self) -> None:
        hurried = [] if self._settings["fsync"] == "on" else ["--no-sync"]
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", *hurried)

    def _take_port(self) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._settings = {**self._settings, "port": str(self.port)}

    def begin(self) -> None:
        """Start for the first time; somebody else may take the port in between, so on another one if need be."""
        for _ in range(TRIES - 1):
            try:
                return self.start()
            except RuntimeError:
                self._take_port()
        return self.start()

    def start(self) -> None:
        """Ready when this returns; recovered, if it was not told to stop."""
        options = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        self._run("pg_ctl", "-D", self.data, "-l", self._log, "-o", options, "-w", "start")

    def stop(self) -> None:
        """As by a power cut: nobody is told, nothing is tidied up. One that does not run any more stays as it is."""
        if (pid := self._pid()) is not None:
            os.kill(pid, signal.SIGQUIT)
            until(lambda: not _is_server(pid), STOP_SECONDS, f"the server in {self.data} ends")

    def command(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one statement outside a transaction. Raises `psycopg.Error`."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as link:
            cursor = link.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def follow(self, port: int) -> None:
        """Become a standby of the server on this port, from a copy of it where there is nothing yet."""
        conninfo = f"host=127.0.0.1 port={port} user=postgres application_name=standby"
        if not self.data.exists():
            self._run("pg_basebackup", "-D", self.data, "-d", conninfo, "-c", "fast", "--no-sync")
        (self.data / "standby.signal").touch()
        give_to_server(self.data / "standby.signal")
        self._settings["primary_conninfo"] = conninfo

    def promote(self) -> None:
        """Ready to be written when this returns."""
        self._run("pg_ctl", "-D", self.data, "-w", "promote")

    @property
    def runs(self) -> bool:
        return self._pid() is not None

    def _pid(self) -> int | None:
        file = self.data / "postmaster.pid"
        pid = int(file.read_text().split()[0]) if file.exists() else None
        return pid if pid is not None and _is_server(pid) else None

    def _run(self, program: str, *arguments: object) -> None:
        """PostgreSQL does not run as root."""
        other = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        command = [*other, str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr[-500:]}")


def _is_server(pid: int) -> bool:
    """Whether the number that a server left in its file is not somebody else's by now."""
    try:
        process = psutil.Process(pid)
        return str(process.name()).startswith("postgres") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def folder_of_a_server() -> Iterator[Path]:
    """A directory that a server may have its files in. Raises `NoPostgres`."""
    with tempfile.TemporaryDirectory(prefix="mcc-postgres-") as folder:
        give_to_server(Path(folder))
        yield Path(folder)


def give_to_server(directory: Path) -> None:
    """Raises `NoPostgres`."""
    if getpass.getuser() == "root":
        try:
            shutil.chown(directory, "postgres")
        except LookupError:
            raise NoPostgres("PostgreSQL does not run as root, and there is no user postgres") from None


@contextmanager
def server_in(directory: Path, settings: Mapping[str, str]) -> Iterator[Postgres]:
    """A server whose files are in this directory, as that of `folder_of_a_server`. Raises `NoPostgres`."""
    if INITDB is None:
        raise NoPostgres("there is no initdb to make a PostgreSQL with")
    server = Postgres(directory, settings)
    server.make()
    server.begin()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def own_postgres() -> Iterator[Postgres]:
    """Raises `NoPostgres`."""
    with folder_of_a_server() as folder, server_in(folder, {}) as server:
        yield server
