"""The joiner: enters the network namespace of a sandbox and opens the proxy's listening socket there.

A process of its own does this and forks for each sandbox: only a single-threaded process may join another user
namespace (setns), and it cannot come back. The listening socket is handed to the proxy and works from outside, so the
sandbox needs no socket file and no process of MCC's inside it.
"""

import ctypes
import os
import socket
import sys
from contextlib import suppress

PORT = 3128
"""The port on loopback where the proxy listens in each sandbox."""

MOST = 4_096
"""Longest message in bytes."""

_NETWORK = "/proc/self/ns/net"
_NEW_USER = 0x10000000
_NEW_NET = 0x40000000
_BACKLOG = 64


class Joiner:
    """Opens sockets in the networks of sandboxes. Make it before this process has threads, as it forks; send one
    request at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            _serve(theirs)
        theirs.close()

    @property
    def pipe(self) -> socket.socket:
        """The socket that becomes readable when an answer has arrived."""
        return self._ours

    def ask(self, first: int) -> None:
        """Request a listener in the network of this process (a pidfd)."""
        socket.send_fds(self._ours, [b"+"], [first])

    def answer(self) -> socket.socket:
        """Receive the requested listener. Raises OSError."""
        message, descriptors, *_ = socket.recv_fds(self._ours, MOST, 1)
        if descriptors:
            return socket.socket(fileno=descriptors[0])
        raise OSError(message.decode("utf-8", "replace") or "the process that joins sandboxes has ended")


def _serve(pipe: socket.socket) -> None:
    """Fork for each request until the proxy closes its end. Does not return."""
    libc = ctypes.CDLL(None, use_errno=True)
    with suppress(KeyboardInterrupt):
        while True:
            message, descriptors, *_ = socket.recv_fds(pipe, MOST, 1)
            if not message:
                break
            for first in descriptors:
                child = os.fork()
                if child == 0:
                    _join(libc, pipe, first)
                os.close(first)
                os.waitpid(child, 0)
    os._exit(0)


def _join(libc: ctypes.CDLL, pipe: socket.socket, first: int) -> None:
    """Join the namespaces, open the listener, hand it over, and exit. Does not return."""
    try:
        before = os.readlink(_NETWORK)
        # Both in one call: where the sandbox made a second user namespace, its network belongs to the outer one.
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
