"""What a client takes from the environment: no proxy but its own, none for this machine, named certificates."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import certifi
import httpx
import pytest

from mcc.client import AsyncMCC, address, calls
from mcc.client.async_connection import Connection as AsyncConnection
from mcc.client.errors import Unreachable
from mcc.client.requests.fleet_calls import list_drones
from mcc.client.surroundings import surroundings_of
from mcc.client.sync_connection import Connection
from mcc.testing.served import TOKEN, Served

FAR = "https://mcc.example"
EVERY_PROXY = {
    name: "http://thief.test:3128"
    for stem in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in (stem, stem.lower())
}


class Proxy:
    """A proxy that notes the head of every request and answers each with 403."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.heads: list[bytes] = []
        self.asked = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            with link:
                self.heads.append(link.recv(65_536))
                self.asked.set()
                link.sendall(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with closing(Proxy()) as made:
        yield made


@pytest.mark.parametrize("url", ["http://127.0.0.1:8420", "http://mcc.example", "http://[::1]:1", "HTTP://localhost:2"])
def test_by_http_nothing_of_the_environment_counts(url: str) -> None:
    environ = {**EVERY_PROXY, "MCC_PROXY": "http://ours.test:3128", "SSL_CERT_FILE": "/no/such/file"}
    found = surroundings_of(url, environ)
    assert found.proxy is None and found.certificates == ("", "")
    trusted = found.verification(url)
    assert trusted.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert trusted.verify_mode is ssl.CERT_REQUIRED and trusted.check_hostname


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.8.7", "localhost", "LOCALHOST", "localhost.", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_this_machine_is_reached_without_a_proxy_also_by_https(host: str) -> None:
    found = surroundings_of(f"https://{host}:8420", {**EVERY_PROXY, "MCC_PROXY": "http://ours.test:3128"})
    assert found.proxy is None


def test_another_host_is_reached_through_the_proxy_that_is_ours_and_through_no_other() -> None:
    assert surroundings_of(FAR, {**EVERY_PROXY, "MCC_PROXY": "http://ours.test:3128"}).proxy == "http://ours.test:3128"
    assert surroundings_of(FAR, EVERY_PROXY).proxy is None
    said = str(surroundings_of(FAR, EVERY_PROXY).unanswered(FAR, "refused"))
    assert said.endswith("HTTPS_PROXY is not used for it: MCC_PROXY names a proxy.")
    assert "PROXY" not in str(surroundings_of(FAR, {}).unanswered(FAR, "refused"))


@pytest.mark.parametrize(
    "proxy", ["ours.test:3128", "socks5://ours.test", "http://u:p@ss@ours.test", "http://x/y", "http://"]
)
def test_a_proxy_that_is_no_address_is_refused_without_a_part_of_it(proxy: str) -> None:
    with pytest.raises(Unreachable, match=r"^MCC_PROXY: ") as refused:
        address.Address.at(FAR, TOKEN, {"MCC_PROXY": proxy})
    assert "ss@" not in str(refused.value) and "ours" not in str(refused.value)


def test_certificates_that_are_named_are_trusted_alone(tmp_path: Path) -> None:
    one = tmp_path / "one.pem"
    whole = Path(certifi.where()).read_text("utf-8")
    one.write_text(whole[whole.index("-----BEGIN") : whole.index("-----END CERTIFICATE-----") + 26])
    named = surroundings_of(FAR, {"SSL_CERT_FILE": str(one)}).verification(FAR)
    assert named.cert_store_stats()["x509_ca"] == 1 and named.check_hostname
    assert surroundings_of(FAR, {}).verification(FAR).cert_store_stats()["x509_ca"] > 50
    empty = surroundings_of(FAR, {"SSL_CERT_DIR": str(tmp_path)}).verification(FAR)
    assert empty.cert_store_stats()["x509_ca"] == 0 and empty.verify_mode is ssl.CERT_REQUIRED
    local = surroundings_of("https://localhost", {"SSL_CERT_FILE": str(one)})
    assert local.verification("https://localhost").cert_store_stats()["x509_ca"] == 1
    with pytest.raises(Unreachable, match=r"^SSL_CERT_FILE names certificates that cannot be read"):
        surroundings_of(FAR, {"SSL_CERT_FILE": str(tmp_path / "none")}).verification(FAR)


def test_a_token_for_another_host_passes_the_proxy_inside_tls_only_and_the_error_names_the_proxy(proxy: Proxy) -> None:
    at = address.Address.at(FAR, TOKEN, {"MCC_PROXY": f"http://me:word@127.0.0.1:{proxy.port}", **EVERY_PROXY})

    async def awaited() -> None:
        connection = AsyncConnection(at, 5.0, None)
        try:
            await connection.send(list_drones(False))
        finally:
            await connection.http.aclose()

    connection = Connection(at, 5.0, None)
    with pytest.raises(Unreachable) as blocking, connection.http:
        connection.send(list_drones(False))
    with pytest.raises(Unreachable):
        asyncio.run(awaited())
    assert proxy.heads[0].startswith(b"CONNECT mcc.example:443 HTTP/1.1\r\n")
    assert all(head.startswith(b"CONNECT ") and TOKEN.encode() not in head for head in proxy.heads)
    assert f"through the proxy http://me:***@127.0.0.1:{proxy.port}, which MCC_PROXY names" in str(blocking.value)
    assert "word@" not in str(blocking.value)


def test_a_service_here_gets_its_token_though_the_environment_names_proxies(
    served: Served, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (*EVERY_PROXY, "MCC_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))

    async def listed() -> int:
        async with AsyncMCC(served.url, token=TOKEN) as client:
            return len((await client.orders.list()).items)

    assert asyncio.run(listed()) == 0
    connection = Connection(address.Address.at(served.url, TOKEN), 5.0, None)
    with connection.http:
        assert connection.send(calls.list_orders()).items == ()
    assert not proxy.asked.is_set()


def test_nothing_but_the_environment_of_httpx_is_turned_off() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"items": []})

    Connection(address.Address.at(FAR, TOKEN, {}), 5.0, httpx.MockTransport(answer)).send(calls.list_orders())
    assert sent[0].headers["Authorization"] == f"Bearer {TOKEN}"
