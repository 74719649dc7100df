"""A git server over https on loopback, which demands a token if it was given one."""

import base64
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "git.example.org"


@dataclass
class Served:
    port: int
    asked: list[str] = field(default_factory=list)
    redirect: str = ""
    failing: list[int] = field(default_factory=list)
    """Statuses with which the next requests are answered."""
    hear: Callable[[int], None] = lambda number: None
    """Is told the number of each request before it is answered."""

    def address(self, name: str = "team/shop") -> str:
        return f"https://{HOST}:{self.port}/{name}"


class QuietServer(ThreadingHTTPServer):
    """Says nothing of connections that end before they were answered."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def git_server(root: Path, context: ssl.SSLContext, token: str | None = None) -> Iterator[Served]:
    """Serves the bare repositories below `root`."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            served.asked.append(self.path)
            served.hear(len(served.asked))
            if served.redirect:
                self.send_response(301)
                self.send_header("Location", served.redirect + self.path)
                self.end_headers()
                return
            if served.failing:
                self.send_error(served.failing.pop(0))
                return
            said = self.headers.get("Authorization", "").removeprefix("Basic ")
            if token is not None and base64.b64decode(said).decode().partition(":")[2] != token:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": "127.0.0.1",
            }
            body = self._body()
            environment["CONTENT_LENGTH"] = str(len(body))
            done = subprocess.run(
                ("git", "http-backend"), input=body, env=environment, stdout=subprocess.PIPE, check=False
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(lines.pop("Status", "200 OK").split(" ")[0]))
            for name, value in lines.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            """What is sent; in chunks, as git sends more than a megabyte."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            pieces: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        do_GET = do_POST = _serve

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    served = Served(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
