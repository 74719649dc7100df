"""A PgBouncer of one's own in front of a PostgreSQL."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import psutil
import psycopg

from tests.faults.members import until
from tests.faults.postgres import give_to_server
from tests.faults.services import through
from tests.ports import free_port

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SERVER_CONNECTIONS = 4
"""Fewer than a service or a drone keeps open, so that transactions change their connection all the time."""

Mode = Literal["transaction", "session", "statement"]
START_SECONDS = 10.0


class NoPgBouncer(Exception):
    """None can be started here; the sentence says why."""


@contextmanager
def pgbouncer_before(url: str, mode: Mode, connections: int = SERVER_CONNECTIONS) -> Iterator[str]:
    """The same database by way of a PgBouncer. In session mode it has one setting more, without which it refuses what
    MCC connects with, and as many connections as its clients may want. Raises `NoPgBouncer`."""
    if PROGRAM is None:
        raise NoPgBouncer("there is no pgbouncer here")
    parts, port = urlsplit(url), free_port()
    with tempfile.TemporaryDirectory(prefix="mcc-pgbouncer-") as folder:
        place = Path(folder)
        lines = [
            "[databases]",
            f"* = host={parts.hostname} port={parts.port or 5432} user={parts.username or 'postgres'}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {port}",
            "unix_socket_dir =",
            "auth_type = any",
            f"pool_mode = {mode}",
            f"default_pool_size = {connections if mode == 'transaction' else 60}",
            "max_client_conn = 400",
            f"logfile = {place / 'log'}",
            f"pidfile = {place / 'pid'}",
            *(["ignore_startup_parameters = options"] if mode == "session" else []),
        ]
        (place / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        give_to_server(place)
        other = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        command = [*other, PROGRAM, "-d", "-q", str(place / "pgbouncer.ini")]
        subprocess.run(command, cwd="/", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: _answers(through(url, port)), START_SECONDS, lambda: (place / "log").read_text()[-500:])
            yield through(url, port)
        finally:
            _end(int((place / "pid").read_text()))


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGTERM)
        process.wait(START_SECONDS)
