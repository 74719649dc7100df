"""Joins the network of a sandbox from outside and listens there: the one thing of ours that is ever inside.

A process of its own does it, which forks for each sandbox: only one that has a single thread may join the users of
another, and what has joined cannot come back. The listening socket is handed over and works from outside, so the
sandbox needs no socket file and nothing that listens inside of it.
"""

import ctypes
import os
import socket
import sys
from contextlib import suppress

PORT = 3128
"""Where the proxy listens, inside of each sandbox."""

MOST = 4_096
"""Bytes of a message."""

_NETWORK = "/proc/self/ns/net"
_NEW_USER = 0x10000000
_NEW_NET = 0x40000000
_BACKLOG = 64


class Joiner:
    """Has sockets made in the networks of sandboxes. Start it before this process has threads, use it one by one."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            _serve(theirs)
        theirs.close()

    @property
    def pipe(self) -> socket.socket:
        """Readable when an answer is there."""
        return self._ours

    def ask(self, first: int) -> None:
        """For a listener in the network of this process (a pidfd)."""
        socket.send_fds(self._ours, [b"+"], [first])

    def answer(self) -> socket.socket:
        """The listener. Raises OSError."""
        said, descriptors, *_ = socket.recv_fds(self._ours, MOST, 1)
        if descriptors:
            return socket.socket(fileno=descriptors[0])
        raise OSError(said.decode("utf-8", "replace") or "the process that joins sandboxes has ended")


def _serve(pipe: socket.socket) -> None:
    """Fork for each sandbox until nobody asks any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    with suppress(KeyboardInterrupt):
        while True:
            said, descriptors, *_ = socket.recv_fds(pipe, MOST, 1)
            if not said:
                break
            for first in descriptors:
                child = os.fork()
                if child == 0:
                    _joined(libc, pipe, first)
                os.close(first)
                os.waitpid(child, 0)
    os._exit(0)


def _joined(libc: ctypes.CDLL, pipe: socket.socket, first: int) -> None:
    """Join, listen, hand over, end."""
    try:
        before = os.readlink(_NETWORK)
        # In one call: the network belongs to an outer user namespace where the sandbox made a second one for itself.
        if libc.setns(first, _NEW_USER | _NEW_NET):
            problem = ctypes.get_errno()
            raise OSError(problem, os.strerror(problem))
        if os.readlink(_NETWORK) == before:
            raise OSError("it has no network of its own")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", PORT))
            listener.listen(_BACKLOG)
            socket.send_fds(pipe, [b"+"], [listener.fileno()])
    except OSError as error:
        with suppress(OSError):
            pipe.send(f"the network of the sandbox cannot be joined: {error.strerror or error}".encode()[:MOST])
    finally:
        sys.stdout.flush()
        os._exit(0)
