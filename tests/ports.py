"""Ports for servers that tests start as processes of their own and must know before they listen."""

import os
import random
import socket
import tempfile
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

LOCKS = Path(tempfile.gettempdir()) / f"mcc-test-ports-{os.getuid()}"
RANGE = range(12_000, 28_000)
"""Below the ports that Linux gives to connections and to servers that ask for any port (from 32,768): between choosing
such a port and listening on it, any connection of any process may take it."""
_held: list[int] = []


def free_port() -> int:
    """A port of loopback that no other test on this machine is given while this process lives.

    Raises AssertionError where none is free.
    """
    LOCKS.mkdir(exist_ok=True)
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        if (lock := _locked(port)) is not None:
            _held.append(lock)
            return port
    raise AssertionError(f"no port of {RANGE} is free")


def _locked(port: int) -> int | None:
    """The locked file that stands for a port; None when another process has the lock, or anybody the port."""
    lock = os.open(LOCKS / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        flock(lock, LOCK_EX | LOCK_NB)
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        os.close(lock)
        return None
    return lock
