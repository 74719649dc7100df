"""Checks of every request: token, host, origin, content type, size, nesting depth and speed."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from mcc.api.access.credentials import Credentials
from mcc.api.access.guard import MAX_BODY_BYTES, Door, nested_deeper_than, read_body
from mcc.api.app import build_app
from mcc.api.problems import Refusal
from mcc.api.serve import BoundedConnection
from mcc.settings import ServiceSettings
from mcc.store.store import Offload, Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served

ORDERS = "/api/v1/orders"
PLACES = [
    ("GET", "/api/v1/orders"),
    ("POST", "/api/v1/orders"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/drones"),
    ("GET", "/api/v1/nothing"),
    ("GET", "/metrics"),
    ("OPTIONS", "/api/v1/orders"),
    ("DELETE", "/api/v1/orders"),
]


@pytest.mark.parametrize(("method", "path"), PLACES)
@pytest.mark.parametrize("sent", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"])
async def test_nothing_is_told_without_the_token(
    api: httpx.AsyncClient, method: str, path: str, sent: str | None
) -> None:
    del api.headers["authorization"]
    headers = {} if sent is None else {b"Authorization": sent.encode()}
    answer = await api.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"


async def test_the_token_for_metrics_opens_them_and_nothing_else(tmp_path: Path) -> None:
    collector = "c" * 40
    app = build_app(ServiceSettings(data_dir=tmp_path), temporary_store(), token=TOKEN, metrics_token=collector)
    headers = {"Authorization": f"Bearer {collector}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as api:
        assert (await api.get("/metrics")).status_code == 200
        for path in (ORDERS, "/metrics/", "/api/v1/drones"):
            refused = await api.get(path)
            assert refused.status_code in (403, 404), path
            assert refused.json().get("needs") == ("read" if refused.status_code == 403 else None)
        api.headers["Authorization"] = f"Bearer {TOKEN}"
        assert (await api.get("/metrics")).status_code == 200
        api.headers["Authorization"] = f"Bearer {collector[:-1]}d"
        assert (await api.get("/metrics")).status_code == 401


async def test_a_token_in_the_address_does_not_count(api: httpx.AsyncClient) -> None:
    del api.headers["authorization"]
    assert (await api.get(ORDERS, params={"token": TOKEN, "access_token": TOKEN})).status_code == 401


async def test_a_guesser_is_slowed_down_and_the_operator_is_not(api: httpx.AsyncClient) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [(await api.get(ORDERS, headers=wrong)).status_code for _ in range(50)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert (await api.get(ORDERS)).status_code == 200


async def test_who_sends_no_token_is_told_so_however_often(api: httpx.AsyncClient) -> None:
    """A probe, or a page before its login, guesses nothing."""
    del api.headers["authorization"]
    assert {(await api.get(ORDERS)).status_code for _ in range(30)} == {401}
    answer = await api.get(ORDERS, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401, "and no guess of theirs was counted"


async def test_a_caller_beyond_the_pace_is_asked_to_wait(store: Store, settings: ServiceSettings) -> None:
    door = Door(settings, Credentials(store.rights, Offload(1), token=TOKEN))
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
    request = Request({"type": "http", "method": "GET", "path": ORDERS, "query_string": b"", "headers": headers})
    with pytest.raises(Refusal) as refused:
        for _ in range(12_100):
            await door.admit(request)
    assert refused.value.status == 429 and 0 < int((refused.value.headers or {})["Retry-After"]) <= 60


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "mcc", "0.0.0.0", "[::ffff:7f00:1]"],
)
@pytest.mark.parametrize("path", ["/healthz", ORDERS, "/api/docs"])
async def test_another_host_name_is_not_answered(api: httpx.AsyncClient, host: str, path: str) -> None:
    assert (await api.get(path, headers={"Host": host})).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8420", "localhost."])
async def test_loopback_is_answered_by_every_name(api: httpx.AsyncClient, host: str) -> None:
    assert (await api.get(ORDERS, headers={"Host": host})).status_code == 200


async def test_a_name_that_the_operator_allowed_is_answered(tmp_path: Path) -> None:
    app = build_app(ServiceSettings(data_dir=tmp_path, allowed_hosts=("MCC",)), temporary_store(), token=TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://mcc:8420") as client:
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "file://127.0.0.1:8420"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_origin_neither_changes_nor_watches(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await api.post(ORDERS, json={"prompt": "x"}, headers=headers)).status_code == 403
    assert (await api.get("/api/v1/events", headers=headers)).status_code == 403
    assert (await api.get("/api/v1/orders")).json()["items"] == []


async def test_the_own_origin_may_change(api: httpx.AsyncClient) -> None:
    own = {"Origin": "http://127.0.0.1:8420", "Sec-Fetch-Site": "same-origin"}
    assert (await api.post(ORDERS, json={"prompt": "x"}, headers=own)).status_code == 201


async def test_no_site_is_let_in_by_cors(api: httpx.AsyncClient) -> None:
    asked = {"Origin": "http://127.0.0.1:8420", "Access-Control-Request-Method": "POST"}
    answer = await api.options(ORDERS, headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp"]
)
async def test_a_body_of_another_kind_is_refused(api: httpx.AsyncClient, kind: str) -> None:
    answer = await api.post(ORDERS, content=b'{"prompt": "x"}', headers={"Content-Type": kind})
    assert answer.status_code == 415


async def test_a_forwarded_address_grants_nothing(api: httpx.AsyncClient) -> None:
    del api.headers["authorization"]
    headers = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "localhost", "X-Request-From": "internal"}
    assert (await api.get(ORDERS, headers=headers)).status_code == 401


async def test_a_body_that_is_too_large_is_refused_announced_or_not(api: httpx.AsyncClient) -> None:
    json_kind = {"Content-Type": "application/json"}
    assert (await api.post(ORDERS, content=b" " * 4_194_305, headers=json_kind)).status_code == 413
    body = b'{"prompt": "go"}'
    assert (await api.post(ORDERS, content=body + b" " * (4_194_304 - len(body)), headers=json_kind)).status_code == 201

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65_536 + 1):
            yield b" " * 65_536

    assert (await api.post(ORDERS, content=parts(), headers=json_kind)).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nul",
        b"[1,",
        b'{"prompt": "\\ud800"}',
        b"\xff\xfe",
        b'{"prompt": "\xff"}',
        b"[]",
        b'"x"',
        b"1",
        b"null",
        b"",
    ],
)
async def test_a_body_that_is_no_order_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    answer = await api.post(ORDERS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_body_that_is_nested_too_deep_is_refused(api: httpx.AsyncClient) -> None:
    body = '{"prompt": "x", "result_schema": ' + '{"a":' * 70 + "1" + "}" * 70 + "}"
    answer = await api.post(ORDERS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and "nested" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "too_deep"),
    [
        ("[" * 64 + "]" * 64, False),
        ("[" * 65 + "]" * 65, True),
        ('{"a":' * 65 + "1" + "}" * 65, True),
        (json.dumps({"a": "[" * 100 + '"' + "{" * 100}), False),
        (json.dumps(['\n"', "\\", "[["] * 50), False),
        (json.dumps([[], [[]], {"a": [{}]}] * 500), False),
        ("[" * 1_000_000, True),
    ],
)
def test_depth_is_counted_outside_of_text(body: str, too_deep: bool) -> None:
    assert nested_deeper_than(64, body.encode()) is too_deep


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def silence() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "headers": [], "path": "/"}
    with pytest.raises(Refusal) as refused:
        await read_body(Request(scope, silence), seconds=0.01)
    assert (refused.value.status, refused.value.headers) == (408, {"Connection": "close"})


async def test_every_answer_has_the_safe_headers(api: httpx.AsyncClient) -> None:
    for answer in (await api.get(ORDERS), await api.get("/nothing"), await api.get("/api/docs")):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_an_answer_of_the_api_loads_and_runs_nothing_where_a_browser_shows_it(api: httpx.AsyncClient) -> None:
    for path in (ORDERS, "/nothing", "/healthz", "/api/v1/openapi.json"):
        policy = (await api.get(path)).headers["content-security-policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize("part", ["", "/start.js", "/swagger.css", "/swagger.js"])
async def test_the_description_of_the_api_may_load_what_is_its_own(api: httpx.AsyncClient, part: str) -> None:
    assert "default-src 'self'" in (await api.get(f"/api/docs{part}")).headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/orders/", 404),
        ("PUT", "/api/v1/orders", 405),
        ("GET", "/api/v1/orders/01900000-0000-7000-8000-000000000000/cancel", 405),
    ],
)
async def test_an_address_that_is_not_there_is_a_problem_too(
    api: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await api.request(method, path)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"


class BrokenStore(Store):
    """A store that raises an unexpected exception."""

    def schema_problem(self) -> str | None:
        raise RuntimeError("secret of the inside")


async def test_a_bug_is_told_by_an_id_and_never_by_a_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = build_app(ServiceSettings(data_dir=tmp_path), BrokenStore(**vars(temporary_store())), token=TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 500
    assert "secret" not in answer.text and "Traceback" not in answer.text
    assert answer.json()["id"] in caplog.text


def test_a_head_that_does_not_end_closes_the_connection(tmp_path: Path) -> None:
    class ImpatientConnection(BoundedConnection):
        head_seconds = 0.1

    class Impatient(Served):
        connection = ImpatientConnection

    with Impatient(temporary_store(), tmp_path) as served:
        for unfinished in (b"", b"GET /healthz HTTP/1.1\r\nHost: local"):
            with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
                connection.sendall(unfinished)
                assert connection.recv(1000) == b""


def test_a_connection_whose_body_was_not_waited_for_is_closed_with_the_answer(tmp_path: Path) -> None:
    head = (
        f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
    )
    with (
        Served(temporary_store(), tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection,
    ):
        connection.sendall(f"{head % served.token}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n{{".encode())
        answered = b""
        while piece := connection.recv(10_000):
            answered += piece
    assert answered.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answered.lower()


def test_a_head_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (
        Served(temporary_store(), tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port)) as connection,
    ):
        connection.settimeout(10)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 20_000)
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+9999"])
@pytest.mark.parametrize("body", ['{"prompt": "x", "metadata": {"a": [{"b": %s}]}}', '{"prompt": "x", "rules": [%s]}'])
async def test_a_number_that_json_lacks_is_refused_anywhere_in_a_body(
    api: httpx.AsyncClient, body: str, number: str
) -> None:
    json_kind = {"Content-Type": "application/json"}
    for path, content in ((ORDERS, body % number), (f"{ORDERS}:batch", f'{{"orders": [{body % number}]}}')):
        refused = await api.post(path, content=content, headers=json_kind)
        assert refused.status_code == 422 and "a number is NaN, Infinity or beyond" in refused.json()["detail"]
    assert (await api.get(ORDERS)).json()["items"] == []
