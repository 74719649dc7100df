"""A user with keys and a running service, beside a checkout that somebody else wrote, and a server of that somebody."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.file import KIND, key_of
from mcc.configuration.trust import TrustStore, digest_of
from tests.forking import popen

MCC = (sys.executable, "-m", "mcc.cli.main")
DRONE = (sys.executable, "-m", "drone.cli")

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "OPENAI_API_KEY": "sk-openai-0123456789",
    "WORK_KEY": "work-key-0123456789",
}


@dataclass(frozen=True)
class User:
    """`home` holds the user's own files, `checkout` those of somebody else; commands are started in the checkout."""

    home: Path
    checkout: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / ".config" / "mcc"

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share" / "mcc"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.more}

    def writes(self, text: str) -> None:
        """Into the user's own mcc.toml."""
        self.config.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.config / "mcc.toml").write_text(text)

    def finds(self, text: str) -> Path:
        """In the checkout's mcc.toml."""
        (self.checkout / "mcc.toml").write_text(text)
        return self.checkout / "mcc.toml"

    def runs(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more}
        return popen.run(
            command, cwd=self.checkout, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def trusts(self) -> None:
        """As `mcc config trust` does it."""
        file = self.checkout / "mcc.toml"
        TrustStore.within(self.config).keep(KIND, {key_of(file): digest_of(file.read_bytes())})


def user_in(directory: Path) -> User:
    for name in ("home", "checkout"):
        (directory / name).mkdir()
    return User(directory / "home", directory / "checkout")


@dataclass(frozen=True)
class Thief:
    """A server that keeps what it is sent."""

    url: str
    heard: Sequence[str]


@contextmanager
def thief() -> Iterator[Thief]:
    heard: list[str] = []

    class Ears(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            heard.append(f"{self.requestline}\n{self.headers}")
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b'{"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ears) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Thief(f"http://127.0.0.1:{server.server_address[1]}", heard)
        server.shutdown()
