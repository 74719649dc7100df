"""A canary in each place where a family keeps a secret, real work that says all of them, and every sink searched."""

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil
import redis

from mcc.client import MCC
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.redaction import MARK
from mcc.settings import load
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from tests.drone.mcp_servers.conftest import FAKE
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene
from tests.fake_provider.play import Call, Say
from tests.forking import popen
from tests.hostile.canaries import ACCESS, OF_ALL, OF_THE_DRONE, REFRESH, Found, Outside, outside
from tests.journey.conftest import FOREIGN

SILENT_SECONDS = 3.0
"""An answer that says nothing for so long says nothing more; streams say that they are there every 15 s."""
WHOLE_SECONDS = 60.0
"""For an answer that ends: a look at the whole installation takes its time."""

GROUPS = (
    "environment_read, workspace_read, workspace_write, git_read, git_write, shell_write, web_read, memory_read, "
    "memory_write, plans_write, tasks_write, mcp, coordination"
)

COURIER = f"---\nname: courier\ndescription: Says all.\ntools: [{GROUPS}]\nspawns: []\nresult: text\n---\nSay all.\n"


def configuration(here: Outside) -> str:
    ports = {name: address.split("/")[2] for name, address in here.addresses.items()}
    return f"""
[models.said]
provider = "openai"
api = "chat"
base_url = "{here.addresses["model"]}"
model = "fake-model"
api_key_env = "FAKE_PROVIDER_KEY"

[models.refused]
provider = "openai"
api = "chat"
base_url = "{here.addresses["pages"]}/v1"
model = "any"
api_key_env = "REFUSED_KEY"
extra_headers = {{ X-Tenant-Token = "{OF_ALL["DEPLOY_TOKEN"]}" }}

[mcp.desk]
command = {json.dumps([sys.executable, str(FAKE), json.dumps({"tools": ["env", "echo"]})])}
env = {{ PASSAGE = "OF_THE_DESK" }}
effects = {{ "*" = "read" }}

[mcp.wire]
url = "{here.addresses["wire"]}"
token_env = "OF_THE_WIRE"
effects = {{ "*" = "read" }}

[mcp.gate]
url = "{here.addresses["gate"]}"
oauth = true
effects = {{ "*" = "read" }}

[sandbox.egress]
allow = ["api.example.test"]

[sandbox.secrets.STAND_IN]
env = "HELD_BY_PROXY"
hosts = ["api.example.test"]

[web]
hosts = ["{ports["pages"]}"]
allow_private = ["{ports["pages"]}"]

[web.search]
backend = "brave"
url = "{here.addresses["pages"]}/search"
key_env = "OF_THE_ENGINE"
"""


def script(here: dict[str, str], said: str) -> list[Say]:
    """What the model of the first order says: every secret, in every tool."""
    half = len(OF_THE_DRONE["FAKE_PROVIDER_KEY"]) // 2
    head, tail = OF_THE_DRONE["FAKE_PROVIDER_KEY"][:half], OF_THE_DRONE["FAKE_PROVIDER_KEY"][half:]

    def one(tool: str, /, **arguments: Any) -> Say:
        return Say(f"I know {said}.", (Call(tool, arguments),), thinking=f"It is {said}.")

    return [
        one("environment_detect"),
        one("run_shell", command="env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls -la / /tmp; mount"),
        one("run_shell", command=f"printf '%s%s\\n' '{head}' '{tail}'; echo '{said}' | tee shown.txt"),
        one("run_shell", command=f"""awk 'BEGIN {{ for (i = 0; i < 9000; i++) print i, "{head}" "{tail}" }}'"""),
        one("desk__env"),
        one("desk__echo", text=said),
        one("wire__look", text=said),
        one("gate__look", text=said),
        one("web_fetch", url=f"{here['pages']}/page"),
        one("web_fetch", url=f"{here['pages']}/page?q={quote(said[:900])}"),
        one("web_search", query="harbours"),
        one("web_search", query=said[:300]),
        one("memory_write", name="build", content=said),
        one("plan_write", name="plan", content=said),
        one("task_create", title="Say it", detail=said),
        one("write_file", path="kept.txt", content=said),
        one("write_file", path=f"{head}{tail}.txt".replace("/", "_"), content="x"),
        one("search_text", pattern="canary"),
        one("git_add", paths=["kept.txt"]),
        one("git_commit", message=f"Keep {said}"),
        one(f"no_tool_{head}", text=said),
        Say(f"All of it: {said}", (), f"It is {said}."),
    ]


@contextmanager
def watched(found: Found) -> Iterator[None]:
    """What this process starts is looked at all the while: every command line, and the environment of each that keys
    are not for."""
    over, seen = threading.Event(), set[tuple[int, str]]()
    me = psutil.Process()

    def look() -> None:
        while not over.wait(0.1):
            for child in me.children(recursive=True):
                try:
                    line = " ".join(child.cmdline())
                    if (child.pid, line) in seen:
                        continue
                    seen.add((child.pid, line))
                    found.look(f"cmdline {line[:60]!r}", line)
                    if any(name in line for name in ("mcc.cli.main serve", "redis-server", "flower")):
                        told = {name: value for name, value in child.environ().items() if name != "FLOWER_BASIC_AUTH"}
                        found.look(f"environment {line[:60]!r}", json.dumps(told))
                except psutil.Error:
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def listening(client: "redis.Redis", heard: list[bytes]) -> Iterator[None]:
    """All that is published while the block runs."""
    over = threading.Event()
    with client.pubsub() as pubsub:
        pubsub.psubscribe("*")

        def hear() -> None:
            while not over.is_set():
                if (message := pubsub.get_message(timeout=0.1)) is not None:
                    heard.append(repr(message).encode())

        thread = threading.Thread(target=hear)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def in_redis(client: "redis.Redis") -> Iterator[tuple[str, str]]:
    for key in client.scan_iter(count=1000):
        readers: dict[object, Callable[[bytes], object]] = {
            b"string": client.get,
            b"hash": client.hgetall,
            b"set": client.smembers,
            b"list": lambda one: client.lrange(one, 0, -1),
            b"zset": lambda one: client.zrange(one, 0, -1, withscores=True),
            b"stream": client.xrange,
        }
        read = readers[client.type(key)]
        yield key.decode("utf-8", "replace"), repr((key, read(key)))


def routes(family: Family, ids: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What every GET of the API answers, its parameters filled in where something is known by them."""
    with httpx.Client(base_url=family.url, headers={"Authorization": f"Bearer {family.token}"}, timeout=20) as client:
        described = client.get("/api/v1/openapi.json").json()
        for path, methods in described["paths"].items():
            names = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
            if "get" in methods and all(name in ids for name in names):
                filled = path
                for name in names:
                    filled = filled.replace(f"{{{name}}}", ids[name])
                streams = "text/event-stream" in methods["get"]["responses"]["200"].get("content", {})
                with client.stream("GET", filled, timeout=SILENT_SECONDS if streams else WHOLE_SECONDS) as answer:
                    yield path, first_of(answer)


def first_of(answer: httpx.Response) -> str:
    """The whole of an answer that ends, and of one that goes on what comes before it falls silent."""
    lines = [repr(answer.headers)]
    with suppress(httpx.ReadTimeout):
        lines.extend(answer.iter_lines())
    return "\n".join(lines)


COMMANDS = (
    "orders list --json",
    "orders record {order}",
    "orders watch {order} --json",
    "orders show {failed}",
    "inbox --json",
    "config show",
    "doctor",
    "notes list",
)
"""Each in a process of its own, with all secrets in its environment."""


def ended(mcc: MCC, order: WorkOrder, note: str = "Well.") -> WorkOrder:
    """The order at its end; the call that it asks for is approved with this note."""
    for entry in mcc.orders.watch(order.id):
        if isinstance(entry.data, ApprovalRequested):
            for item in mcc.inbox.list(order_id=order.id).items:
                if item.kind == "approval":
                    mcc.inbox.approve(item.id, note=note)
    return mcc.orders.get(order.id)


def worked(mcc: MCC, work: Path, token: str) -> dict[str, str]:
    """The ids of orders that touched all of it: one that succeeds, one whose provider refuses its key aloud, a document
    that is generated, and the first one taken back."""

    def place(prompt: str, **asked: Any) -> WorkOrder:
        return mcc.orders.submit(prompt, workspace=str(work), **asked)

    asks = {"permission": {"git_commit": "ask"}, "on_ask": "wait"}
    order = ended(mcc, place("Say all.", agent="courier", model="said", **asks), f"It is {token}.")
    assert order.status is OrderStatus.SUCCEEDED and order.answer is not None and order.answer.count(MARK) > 10
    failed = ended(mcc, place("Fail.", agent="courier", model="refused"))
    assert failed.status is OrderStatus.FAILED and MARK in str(failed.detail)
    metadata = {"metadata": {"topic": "Tides", "grade": 8}}
    document = ended(mcc, place("", kind="generate", model="offline", blueprint="course", generation=metadata))
    assert document.status is OrderStatus.SUCCEEDED
    reverted = ended(mcc, mcc.orders.revert(order.id))
    assert reverted.status is OrderStatus.SUCCEEDED and not (work / "kept.txt").exists()
    return {"order": order.id, "failed": failed.id, "document": str(document.document_id)}


def known_ids(mcc: MCC, ids: Mapping[str, str]) -> dict[str, str]:
    """What parameters of routes are filled in with."""
    order = mcc.orders.get(ids["order"])
    ended = (entry.data for entry in mcc.orders.watch(order.id) if isinstance(entry.data, ToolFinished))
    artifact = next(one.artifact for one in ended if one.artifact)
    asked = {"order_id": order.id, "session_id": order.session_id, "artifact_id": artifact, "digest": artifact}
    item = mcc.inbox.list(status=None, order_id=order.id).items[0]
    return {**asked, "document_id": ids["document"], "item_id": item.id, "id": item.id, "name": "course"}


def test_no_secret_is_in_any_sink(tmp_path: Path) -> None:
    found_sandbox()
    found = Found({**OF_THE_DRONE, **OF_ALL, "oauth access": ACCESS, "oauth refresh": REFRESH})
    said = " and ".join(found.secrets.values())
    work, data, home = tmp_path / "roots" / "work", tmp_path / "data", tmp_path / "config"
    Scene(work).commit("first", {"a.txt": "one\n"})
    (home / "mcc" / "agents").mkdir(parents=True)
    (home / "mcc" / "agents" / "courier.md").write_text(COURIER)
    data.mkdir(mode=0o700)
    heard: list[bytes] = []
    steps: list[Say] = []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    environment = {**inherited, **OF_THE_DRONE, **OF_ALL, "XDG_CONFIG_HOME": str(home)}
    with ExitStack() as stack:
        here = stack.enter_context(outside(steps))
        (data / "mcc.toml").write_text(configuration(here))
        upgrade(url := f"sqlite:///{data / 'mcc.db'}")
        token = {"access_token": ACCESS, "refresh_token": REFRESH, "token_type": "Bearer"}
        open_store(url).mcp_servers.put_token("gate", {"tokens": token, "expires_at": 4e9})
        settings = load(data_dir=data, database_url=url, host="127.0.0.1", port=0, workspace_roots=(work.parent,))
        family = Family(settings, Staff(drones=1, slots=4), environment=environment)
        stack.enter_context(watched(found))
        stack.enter_context(family_in_thread(family))
        login = (data / "flower.auth").read_text().strip()
        found.secrets = {**found.secrets, "operator token": family.token, "Flower's login": login.partition(":")[2]}
        steps[:] = script(here.addresses, f"{said} and {family.token} and {login}")
        client = stack.enter_context(redis.Redis.from_url(json.loads((data / "family.json").read_text())["redis_url"]))
        stack.enter_context(listening(client, heard))
        mcc = stack.enter_context(MCC(family.url, token=family.token))
        ids = worked(mcc, work, family.token)
        for path, answer in routes(family, known_ids(mcc, ids)):
            found.look(f"GET {path}", answer)
        for path, answer in in_flower(family, login):
            found.look(f"flower {path}", answer)
        for key, value in in_redis(client):
            found.look(f"redis {key}", value)
        for command in COMMANDS:
            found.look(f"cli {command}", run(command.format(**ids), {**environment, "MCC_DATA_DIR": str(data)}))
        for body in here.provider.asked:
            found.look("prompts", body)
    found.look("prompts elsewhere", "\n".join(here.heard))
    found.look("published", b"\n".join(heard))
    for file, content in kept(data, work):
        found.look(f"file {file}", content)
    for name, rows in tables(data / "mcc.db"):
        found.look(f"table {name}", rows)
    assert found.leaks == []
    sinks = {"GET", "flower", "redis", "cli", "prompts", "published", "file", "table", "cmdline", "environment"}
    assert sinks == {kind for kind, size in found.seen.items() if size}, found.seen
    assert {"GET", "cli", "prompts", "table"} <= {kind for kind, marks in found.marks.items() if marks}, found.marks


def run(command: str, environment: Mapping[str, str]) -> str:
    """What a command says, on both its outputs."""
    program = Path(sys.executable).parent / "mcc"
    done = popen.run(
        (str(program), *command.split()), env=dict(environment), capture_output=True, timeout=60, check=False
    )
    said: bytes = done.stdout + done.stderr
    return said.decode("utf-8", "replace")


def in_flower(family: Family, login: str) -> Iterator[tuple[str, str]]:
    with httpx.Client(base_url=family.flower_url or "", auth=(*login.split(":", 1),), timeout=20) as client:  # type: ignore[arg-type]
        for path in ("/api/tasks", "/api/workers?refresh=1", "/tasks", "/workers", "/broker", "/metrics"):
            yield path, client.get(path).text


def kept(data: Path, work: Path) -> Iterator[tuple[Path, bytes]]:
    """All files, but for those where a secret lives."""
    homes = {data / "token", data / "flower.auth", data / "mcc.toml"}
    for top in (data, work):
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink() and path not in homes and path.name[:6] != "mcc.db":
                yield path.relative_to(top), path.read_bytes()


def tables(file: Path) -> Iterator[tuple[str, str]]:
    """All values of the database, but for the tokens that live there."""
    with sqlite3.connect(file) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            if name != "mcp_tokens":
                yield name, "\n".join(map(repr, database.execute(f'SELECT * FROM "{name}"')))
