"""The family under test: real Redis, real Celery workers, a real database, scripted models."""

import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from mcc.client import MCC
from mcc.local.family import Family
from mcc.local.programs import Staff
from mcc.settings import load
from tests.forking.popen import family_of_forks
from tests.journey.script import HARBOUR, LONG, REFUSED, SCRIPT, write_harbour

SERVER = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
FOREIGN = ("MCC_", "DRONE_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "OLLAMA_")

ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True, scope="session")
"""For what does not touch the differences of databases: those are for `tests/conformance/store`, and for the turns, the
killed drones and the generated course that run on both."""


@dataclass(frozen=True)
class House:
    """A running family with its client and the workspace that its orders may use."""

    family: Family
    mcc: MCC
    workspace: Path
    token: str


class Houses:
    """At most one house at a time, which stays until another kind is wanted or nobody needs one any longer."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._open: dict[str, House] = {}
        self._stack = ExitStack()

    def of(self, kind: str) -> House:
        if kind not in self._open:
            self.close()
            self._open[kind] = self._stack.enter_context(running(kind, self._directories))
        return self._open[kind]

    def close(self) -> None:
        self._open.clear()
        self._stack.close()


HOUSES = pytest.StashKey[Houses]()


@pytest.fixture(scope="session")
def houses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Houses]:
    houses = request.session.stash[HOUSES] = Houses(tmp_path_factory)
    yield houses
    houses.close()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A family that waits for nothing would take its share of the processor from all tests that follow."""
    houses = item.session.stash.get(HOUSES, None)
    if houses is not None and "houses" not in getattr(nextitem, "fixturenames", ()):
        houses.close()


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """That of the database; the tests of one come after those of the other."""
    kind: str = request.param
    return kind


@pytest.fixture
def house(kind: str, houses: Houses) -> House:
    return houses.of(kind)


@contextmanager
def running(kind: str, directories: pytest.TempPathFactory) -> Iterator[House]:
    data_dir = directories.mktemp("family")
    with database(kind, data_dir) as url, refusing_provider() as provider:
        workspace = write_harbour(directories.mktemp("place") / HARBOUR)
        _configure(data_dir, provider)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        settings = load(
            data_dir=data_dir,
            database_url=url,
            host="127.0.0.1",
            port=0,
            workspace_roots=(workspace,),
            lease_seconds=2,
            renew_seconds=0.3,
        )
        staff = Staff(drones=2, slots=20, flower=False)
        family = Family(settings, staff, purpose="run", environment={**environment, "REFUSED_KEY": "wrong"})
        with family_of_forks(family), MCC(family.url, token=family.token) as mcc:
            yield House(family, mcc, workspace, family.token)


def _configure(data_dir: Path, provider: str) -> None:
    script = data_dir / "script.json"
    script.write_text(json.dumps(SCRIPT))
    (data_dir / "mcc.toml").write_text(
        f"""
[models.{HARBOUR}]
provider = "scripted"
model = "{script}"

[models.{LONG}]
provider = "scripted"
model = "{script}"

[models.{REFUSED}]
provider = "openai"
base_url = "{provider}/v1"
model = "any"
api_key_env = "REFUSED_KEY"
"""
    )


@contextmanager
def database(kind: str, data_dir: Path) -> Iterator[str]:
    """An address of a database that is dropped afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{data_dir / 'mcc.db'}"
        return
    name = f"mcc_journey_{uuid4().hex}"
    try:
        server = psycopg.connect(SERVER, connect_timeout=3, autocommit=True)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
    with server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield SERVER.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(SERVER, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class _Refusal(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = b'{"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}'
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@contextmanager
def refusing_provider() -> Iterator[str]:
    """A provider that takes no key."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
