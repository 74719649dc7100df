"""Calls of the HTTP API of a forge or a chat: only to checked addresses, within limits; redirects are refused."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import httpx

from mcc.addresses import AddressRefused, AddressRule, Endpoint, host_of, is_loopback
from mcc.addresses.trust import trusted_servers
from mcc.configuration.forges import Forge
from mcc.contracts.plain_text import cut, strip_controls

CALL_SECONDS, CONNECT_SECONDS = 30.0, 10.0
MOST_BYTES = 16_000_000
"""The longest answer that is read: a page of a hundred requests, each with a long text."""

LONGEST_WAIT_SECONDS = 3_600.0
"""The longest pause that a forge may ask for."""

Query: TypeAlias = Mapping[str, object]

_PORTS = {"http": 80, "https": 443}
_BUSY = (408, 425, 429)
_ADVICE = {
    401: ": its token is wrong, or has ended",
    403: ": its token may not do that; give it the right to read and write requests, and to comment where answers go",
    404: ": that is not there, or its token may not see it",
}
"""By status: what whoever has made the token can do about it."""
_RATE_LIMITS = ("rate limit", "abuse detection", "too many requests")
_SHOWN = 500


class ForgeBusy(Exception):
    """The forge cannot be asked now; a later try may succeed. The message says why. `seconds`: after which pause, where
    the forge said it. `status`: that of its answer; None: there was none, or none that was read."""

    def __init__(self, sentence: str, seconds: float | None = None, status: int | None = None) -> None:
        super().__init__(sentence)
        self.seconds = seconds
        self.status = status

    @property
    def may_be_done(self) -> bool:
        """Whether what was asked for may have been carried out all the same."""
        return self.status is None or self.status >= 500


class ForgeRefused(Exception):
    """The forge refuses what is asked for, and will refuse it again. `status` 0: nothing was sent."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class CheckedRoutes(httpx.AsyncBaseTransport):
    """Sends each request to an address that the rule has checked. Of what goes through a proxy, which is for https to
    other machines alone, no address is looked up here: the proxy decides where connections go."""

    def __init__(self, rule: AddressRule, proxy: str | None = None) -> None:
        self._rule = rule
        self._proxy = proxy
        trusted = trusted_servers()
        self._direct = httpx.AsyncHTTPTransport(verify=trusted, trust_env=False)
        self._proxied = httpx.AsyncHTTPTransport(verify=trusted, trust_env=False, proxy=proxy) if proxy else None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if self._proxied is not None and url.scheme == "https" and not is_loopback(url.host):
            return await self._proxied.handle_async_request(request)
        endpoint = Endpoint(host_of(url.host), url.port or _PORTS[url.scheme])
        address = (await self._rule.resolve(endpoint))[0]
        checked = httpx.Request(
            request.method,
            url.copy_with(host=address.host, port=address.port),
            headers=request.headers,  # Host is among them
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        return await self._direct.handle_async_request(checked)

    async def aclose(self) -> None:
        await self._direct.aclose()
        if self._proxied is not None:
            await self._proxied.aclose()


@dataclass(frozen=True, slots=True)
class ForgeWire:
    """The API at `address`, asked with these headers, the credential among them. `failed` is told the status of each
    answer that is no success, 0 where there was none."""

    address: str
    headers: Mapping[str, str] = field(repr=False)
    transport: httpx.AsyncBaseTransport
    failed: Callable[[int], None] = lambda status: None

    async def get(self, path: str, query: Query) -> Any:
        """The answer to a question, as JSON. Raises `ForgeBusy`, `ForgeRefused`."""
        return await self._ask("GET", path, query, None)

    async def send(self, method: str, path: str, body: Mapping[str, object]) -> Any:
        """The answer to a request that changes something. Raises `ForgeBusy`, after which it may have been carried out
        (`may_be_done`), and `ForgeRefused`."""
        return await self._ask(method, path, {}, body)

    async def _ask(self, method: str, path: str, query: Query, body: Mapping[str, object] | None) -> Any:
        try:
            return await self._answer(method, path, query, body)
        except (ForgeBusy, ForgeRefused) as problem:
            self.failed(problem.status or 0)
            raise

    async def _answer(self, method: str, path: str, query: Query, body: Mapping[str, object] | None) -> Any:
        if not all(value.isascii() and value.isprintable() for value in self.headers.values()):
            # Whoever writes the request would name the header in an error, where nobody finds the secret any more.
            raise ForgeRefused(
                f"The token for {self.address} has characters that no token has, such as the end of a line: give it as "
                "it is."
            )
        request = httpx.Request(
            method,
            f"{self.address}{path}",
            params={name: str(value) for name, value in query.items()} or None,
            json=body,
            headers={"user-agent": "mcc", "accept-encoding": "identity", **self.headers},
            extensions={"timeout": httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS).as_dict()},
        )
        try:
            async with asyncio.timeout(CALL_SECONDS):
                response = await self.transport.handle_async_request(request)
                try:
                    content = await _read(response)
                finally:
                    await response.aclose()
        except AddressRefused as refused:
            raise ForgeRefused(str(refused)) from refused
        except TimeoutError as error:
            raise ForgeBusy(f"{request.url.host} did not answer within {CALL_SECONDS:g} seconds.") from error
        except (httpx.HTTPError, OSError) as error:
            reason = cut(" ".join(strip_controls(str(error)).split()), 200) or type(error).__name__
            raise ForgeBusy(f"{request.url.host} cannot be reached: {reason}.") from error
        return _judged(request, response, content)


def forge_wire(
    forge: Forge,
    token: str,
    transport: httpx.AsyncBaseTransport,
    failed: Callable[[int], None] = lambda status: None,
) -> ForgeWire:
    """The wire to a configured forge, as its kind wants to be asked. `failed`: as `ForgeWire` has it."""
    match forge.kind:
        case "github":
            headers = {
                "accept": "application/vnd.github+json",
                "x-github-api-version": "2022-11-28",
                "authorization": f"Bearer {token}",
            }
        case "gitlab":
            headers = {"accept": "application/json", "authorization": f"Bearer {token}"}
        case "gitea":
            headers = {"accept": "application/json", "authorization": f"token {token}"}
        case _:
            assert_never(forge.kind)
    return ForgeWire(forge.api_address, headers, transport, failed)


async def _read(response: httpx.Response) -> bytes:
    stream, content = response.stream, bytearray()
    assert isinstance(stream, httpx.AsyncByteStream)
    async for piece in stream:
        content += piece
        if len(content) > MOST_BYTES:
            raise ForgeRefused(f"The answer has more than {MOST_BYTES:,} bytes, which nobody reads.")
    return bytes(content)


def _judged(request: httpx.Request, response: httpx.Response, content: bytes) -> Any:
    """What the forge answered. Raises `ForgeBusy`, `ForgeRefused`."""
    host, status = request.url.host, response.status_code
    if 200 <= status < 300:
        try:
            return json.loads(content) if content else None
        except (ValueError, RecursionError) as error:
            raise ForgeRefused(f"What {host} answered is no JSON: is this the address of its API?", status) from error
    said = words_of(_json(content))
    if status >= 500 or status in _BUSY or (status == 403 and _is_rate_limit(response, said)):
        pause = response.headers.get("retry-after", "")
        seconds = min(float(pause), LONGEST_WAIT_SECONDS) if pause.isascii() and pause.isdigit() else None
        raise ForgeBusy(f"{host} answered {status}{said}.", seconds, status)
    if 300 <= status < 400:
        raise ForgeRefused(
            f"{host} answered {status}, which leads elsewhere and is not followed: has the project moved? Name its new "
            "address.",
            status,
        )
    advice = _ADVICE.get(status, "")
    raise ForgeRefused(f"{host} answered {status} to {request.method} {request.url.path}{said}{advice}.", status)


def _is_rate_limit(response: httpx.Response, said: str) -> bool:
    headers = response.headers
    if "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0":
        return True
    return any(words in said.lower() for words in _RATE_LIMITS)


def _json(content: bytes) -> Any:
    """None for what is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def words_of(said: Any) -> str:
    """What an answer in JSON says of an error, in brackets; "" where it says nothing that can be read."""
    message = said.get("message") or said.get("error") if isinstance(said, dict) else None
    details = said.get("errors") if isinstance(said, dict) else None
    parts = [*_texts(message), *_texts(details)]
    line = " ".join(strip_controls(": ".join(dict.fromkeys(parts))).split())
    return f" ({cut(line, _SHOWN)})" if line else ""


def _texts(value: object) -> list[str]:
    """The texts in a message: it is one, a list of them, or a list of objects that have one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return _texts(value.get("message"))
    return [text for item in value[:10] for text in _texts(item)] if isinstance(value, list) else []
