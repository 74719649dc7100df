"""A server that speaks Redis' protocol and answers as it is told: master, replica or Sentinel, in any mood."""

import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

Answer = bytes | Callable[[list[str]], bytes]
OK, NUMBER = b"+OK\r\n", b":1\r\n"
READONLY = b"-READONLY You can't write against a read only replica.\r\n"


def bulk(text: str) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text.encode()), text.encode())


def address_of(port: int) -> bytes:
    """A Sentinel's answer to where the master is."""
    return b"*2\r\n" + bulk("127.0.0.1") + bulk(str(port))


class Server:
    """`role`: what its greeting says; `answers`: by command, in place of OK. Both may change while it runs."""

    def __init__(self, role: str = "master", answers: Mapping[str, Answer] | None = None) -> None:
        self.role = role
        self.answers = {"PING": b"+PONG\r\n", "DEL": b":0\r\n", "PUBLISH": NUMBER, **(answers or {})}
        self.commands: list[list[str]] = []
        self.open: list[socket.socket] = []
        self._together: list[bytes] | None = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def named(self, command: str) -> list[list[str]]:
        return [words for words in self.commands if words[0] == command]

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for link in self.open:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            self.open.append(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        stream = link.makefile("rb")
        try:
            while head := stream.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int(stream.readline()[1:])
                    words.append(stream.read(size + 2)[:-2].decode())
                link.sendall(self._answer(words))
        except OSError:
            pass
        finally:
            self.open.remove(link)
            link.close()

    def _answer(self, words: list[str]) -> bytes:
        words[0] = words[0].upper()
        if words[0] == "HELLO":
            role = bulk("role") + bulk(self.role) if self.role else b""
            return b"%%%d\r\n" % (2 if self.role else 1) + bulk("proto") + b":3\r\n" + role
        if words[0] not in ("CLIENT", "SELECT"):
            self.commands.append(words)
        if words[0] == "MULTI":
            self._together = []
            return OK
        if words[0] == "EXEC":
            answers, self._together = self._together or [], None
            return b"*%d\r\n" % len(answers) + b"".join(answers)
        answer = self.answers.get(words[0], OK)
        said = answer(words) if callable(answer) else answer
        if self._together is None:
            return said
        self._together.append(said)
        return b"+QUEUED\r\n"


def sentinel(answer: Answer) -> Server:
    """A Sentinel that says this about every master."""
    return Server("", {"SENTINEL": answer})
