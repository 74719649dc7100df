"""This room is for a PostgreSQL of a test's own, which can be stopped, and whose connections can be used up."""

import getpass
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.services import free_port

INITDB = shutil.which("initdb") or next(iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))), None)
SETTINGS = {"fsync": "off", "max_connections": "60", "unix_socket_directories": "", "listen_addresses": "127.0.0.1"}


class Postgres:
    """A server on a private port; whoever comes over loopback is its owner."""

    def __init__(self, directory: Path) -> None:
        assert INITDB is not None
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._data = directory / "data"
        self._log = directory / "log"
        self._programs = Path(INITDB).resolve().parent

    def make(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-sync")

    def start(self) -> None:
        """Ready when this returns."""
        options = " ".join(f"-c {name}='{value}'" for name, value in {**SETTINGS, "port": self.port}.items())
        self._run("pg_ctl", "-D", self._data, "-l", self._log, "-o", options, "-w", "start")

    def stop(self) -> None:
        """As by a power cut: nobody is told, nothing is tidied up."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: object) -> None:
        """PostgreSQL does not run as root."""
        other = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        command = [*other, str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr[-500:]}")


@contextmanager
def own_postgres() -> Iterator[Postgres]:
    """Skips where none can be made."""
    if INITDB is None:
        pytest.skip("there is no initdb to make a PostgreSQL with")
    with tempfile.TemporaryDirectory(prefix="mcc-postgres-") as folder:
        directory = Path(folder)
        if getpass.getuser() == "root":
            try:
                shutil.chown(directory, "postgres")
            except LookupError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        server = Postgres(directory)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
