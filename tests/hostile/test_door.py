"""Requests that want to be taken for others: the door decides on the path that is routed, and on nothing else."""

import ast
import asyncio
import json
import socket
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from starlette.requests import Request

import mcc.api
from mcc.api.access.credentials import Credentials
from mcc.api.access.guard import Door
from mcc.api.app import build_app
from mcc.api.problems import Refusal
from mcc.settings import ServiceSettings
from mcc.store.store import Offload
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served

ROOT = Path(__file__).parents[2]
ORDERS = "/api/v1/orders"
OPEN = "/healthz"

HOSTS = [
    "127.0.0.1/healthz?",
    "127.0.0.1/healthz#",
    "127.0.0.1:8420/healthz?",
    "localhost?",
    "localhost#",
    "localhost/",
    "localhost\\healthz",
    "user@localhost",
    "user:secret@127.0.0.1:8420",
    "localhost@evil",
    "",
    ".",
    " ",
    "a:b:c",
    "127.0.0.1:",
    "127.0.0.1:0",
    "127.0.0.1:65536",
    "127.0.0.1:99999999999",
    "127.0.0.1:+1",
    "127.0.0.1:\N{ARABIC-INDIC DIGIT ONE}",
    "[::1",
    "::1",
    "[::1]8420",
    "[localhost]",
    "localhost, localhost",
    "localhost localhost",
    "localhost%2fhealthz",
]
"""Each of them is no host, or has more than a host and a port."""


class Addressless(Request):
    """A request as any version of Starlette may build it: the address put together from headers is not to be used."""

    @property
    def url(self) -> Any:
        raise AssertionError("the door looked at an address that the Host header can choose")

    base_url = url


def scope(host: str = "127.0.0.1:8420", path: str = ORDERS, method: str = "POST", **more: Any) -> dict[str, Any]:
    headers = [(b"host", host.encode("utf-8")), (b"content-type", b"application/json")]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "server": ("127.0.0.1", 8420),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        **more,
    }


def refused(door: Door, given: Mapping[str, Any]) -> int:
    with pytest.raises(Refusal) as refusal:
        asyncio.run(door.admit(Addressless(dict(given))))
    return refusal.value.status


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    store, threads = temporary_store(), Offload(1)
    yield Door(ServiceSettings(data_dir=tmp_path), Credentials(store.rights, threads, token=TOKEN))
    threads.close()
    store.close()


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_header_is_a_host_and_a_port(door: Door, host: str) -> None:
    for path in (ORDERS, OPEN, "/api/v1/events"):
        assert refused(door, scope(host, path, "GET")) == 400


@pytest.mark.parametrize(
    "disagreeing",
    [
        {"raw_path": b"/healthz"},
        {"root_path": "/healthz"},
        {"root_path": "/healthz?"},
        {"query_string": b"/healthz"},
        {"server": ("127.0.0.1/healthz?", 80)},
        {"scheme": "http://127.0.0.1/healthz?"},
        {"app_root_path": "/healthz"},
        {"path": "//healthz"},
        {"path": "/healthz/../api/v1/orders"},
        {"path": "/healthz;/api/v1/orders"},
        {"path": "/healthz\0"},
        {"path": "/HEALTHZ"},
    ],
)
def test_nothing_of_a_request_but_its_path_opens_the_door(door: Door, disagreeing: dict[str, Any]) -> None:
    assert refused(door, scope(**disagreeing)) == 401


def test_the_open_paths_are_open_whatever_else_the_request_says(door: Door) -> None:
    opened = Addressless(scope(path=OPEN, method="GET", raw_path=b"/api/v1/orders", root_path="/api"))
    assert asyncio.run(door.admit(opened)) is None


def test_another_site_cannot_hide_that_it_watches_events(door: Door) -> None:
    watching = scope(path="/api/v1/events", method="GET", raw_path=b"/healthz")
    watching["headers"].append((b"origin", b"https://evil.example"))
    assert refused(door, watching) == 403


@pytest.mark.parametrize("origin", ["http://[", "http://127.0.0.1:8420@evil", "http://127.0.0.1:8420/x", "\x7f", ""])
def test_an_origin_that_is_none_is_refused_as_another_one(door: Door, origin: str) -> None:
    asking = scope()
    asking["headers"].append((b"origin", origin.encode()))
    assert refused(door, asking) == 403


async def test_no_order_is_placed_by_a_host_that_spells_an_open_path(tmp_path: Path) -> None:
    """The whole application is called as a server calls it, with what no server checks."""
    store = temporary_store()
    app = build_app(ServiceSettings(data_dir=tmp_path), store, token=TOKEN)
    answers: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps({"prompt": "x"}).encode(), "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    for host in HOSTS:
        await app(scope(host), receive, send)
    assert answers == [400] * len(HOSTS)
    assert not store.orders.list(limit=1).items


def test_nothing_in_the_service_asks_for_an_address_that_headers_choose() -> None:
    chosen = {"base_url", "url", "url_for", "url_path_for"}
    found = [
        f"{file.name}:{node.lineno}"
        for file in Path(mcc.api.__path__[0]).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in chosen
    ]
    assert not found, "decide on scope['path']; redirect and link by plain paths"


def test_a_starlette_that_builds_addresses_otherwise_is_not_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    (versions,) = [one.specifier for one in map(Requirement, declared) if one.name == "starlette"]
    assert "1.2.0" in versions and "1.10.0" in versions
    assert "1.1.0" not in versions and "0.52.1" not in versions and "2.0.0" not in versions


def answered(port: int, *parts: bytes) -> bytes:
    """What a caller reads who sends its head part by part and then waits for the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        pieces: list[bytes] = []
        while piece := connection.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)


MANY = b"".join(b"X-%d: b\r\n" % number for number in range(10_000))
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD + MANY + b"\r\n",),
        (HEAD, *(MANY[place : place + 1_000] for place in range(0, len(MANY), 1_000)), b"\r\n"),
        (HEAD + b"X-Long: " + b"a" * 60_000 + b"\r\n\r\n",),
        (HEAD + MANY[:1_500] + b"\r\n",),
    ],
    ids=["10,000 at once", "10,000 in parts", "one long", "150 short"],
)
def test_too_many_or_too_long_headers_are_told_as_such(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    with Served(temporary_store(), tmp_path) as served:
        head, _, body = answered(served.port, *parts).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 ")
        assert b"application/problem+json" in head and json.loads(body)["status"] == 431
        assert answered(served.port, HEAD + b"\r\n").startswith(b"HTTP/1.1 200 ")


def test_what_is_no_request_is_told_in_a_sentence(tmp_path: Path) -> None:
    with Served(temporary_store(), tmp_path) as served:
        told = answered(served.port, b"\x16\x03\x01 not for this port\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in told
