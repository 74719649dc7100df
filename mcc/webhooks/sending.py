"""One try: a request to an address that the rule has checked, within its time, of whose answer a little is read."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import certifi
import httpx

import mcc
from mcc.addresses import AddressRefused, AddressRule, Endpoint, HostList, Url, url_of
from mcc.configuration.network import WebhookSettings, endpoints_of
from mcc.contracts.webhook_urls import UNSHOWN

CONNECT_SECONDS, TRY_SECONDS = 5.0, 15.0
READ_BYTES = 4 * 1024
SHOWN_CHARACTERS = 200
"""How much of an answer is told with a failure."""

RETRY_AFTER_SECONDS = 3_600.0
"""A receiver may ask for so much patience, and is tried again after that in any case."""

SHORTEST_VALUE = 4
"""Of a query, that is looked for in what a receiver says."""

SAID_SECONDS = 2.0
"""For what a receiver says of its failure."""

GONE = 410


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What a try came to. `status` None: there was no answer, for the reason in `error`, which is "" for a success.
    `after_seconds`: the receiver asks not to be tried before. `is_final`: it will refuse this again. `unsure`: it may
    have got it all the same."""

    status: int | None
    error: str
    after_seconds: float = 0.0
    is_final: bool = False
    unsure: bool = False

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        return self.status == GONE


class WebhookForm:
    """Which addresses webhooks may have, by their form: https, a host that is allowed, no login. Where a host leads to
    is looked at whenever a connection is made."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._hosts = HostList(settings.allow)
        self._private = frozenset(endpoints_of(settings.allow_private))

    def checked(self, text: str) -> Url:
        """Raises `AddressRefused`."""
        url = url_of(text)
        if url.endpoint in self._private:
            return url
        if url.scheme != "https":
            raise AddressRefused(
                f"A webhook is sent by https:// alone, unless [webhooks] allow_private of mcc.toml has {url.endpoint}."
            )
        if not self._hosts.covers(url.endpoint):
            raise AddressRefused(f"{url.endpoint} is not among the hosts of [webhooks] allow in mcc.toml.")
        return url


class WebhookSender:
    """Sends to addresses that form and rule allow, each time by a connection of its own; redirects are not followed."""

    def __init__(
        self,
        form: WebhookForm,
        rule: AddressRule,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        try_seconds: float = TRY_SECONDS,
    ) -> None:
        self._form = form
        self._rule = rule
        self._try_seconds = try_seconds
        self._timeouts = {
            **dict.fromkeys(("read", "write", "pool"), try_seconds),
            "connect": min(connect_seconds, try_seconds),
        }
        self._trust = ssl.create_default_context()
        self._trust.load_verify_locations(certifi.where())

    async def post(self, address: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        try:
            async with asyncio.timeout(self._try_seconds):
                return await self._post(self._form.checked(address), headers, body)
        except AddressRefused as refused:
            return WebhookAnswer(None, str(refused))
        except TimeoutError:
            return WebhookAnswer(None, f"no answer within {self._try_seconds:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return WebhookAnswer(None, _reason(error))

    async def _post(self, url: Url, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        address = (await self._rule.resolve(url.endpoint))[0]
        request = httpx.Request(
            "POST",
            httpx.URL(f"{url.scheme}://{Endpoint(address.host, address.port)}{url.target}"),
            headers={
                **headers,
                "host": url.authority,
                "content-type": "application/json",
                "user-agent": f"mcc/{mcc.__version__}",
                "connection": "close",
            },
            content=body,
            extensions={"sni_hostname": url.endpoint.host, "timeout": self._timeouts},
        )
        async with httpx.AsyncHTTPTransport(verify=self._trust, trust_env=False) as transport:
            response = await transport.handle_async_request(request)
            try:
                # Whoever has taken it need not say more.
                said = "" if response.is_success else await _beginning(response)
                for part in url.target.partition("?")[2].split("&"):
                    # Pages that are not found name their address, with what is secret in it.
                    value = part.partition("=")[2] or part
                    said = said.replace(value, UNSHOWN) if len(value) >= SHORTEST_VALUE else said
                return _answer(response, said)
            finally:
                await response.aclose()


async def _beginning(response: httpx.Response) -> str:
    """As much of the answer as is read. Its status counts, however its text ends."""
    held = b""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(SAID_SECONDS):
            async for piece in response.aiter_raw():
                held += piece
                if len(held) >= READ_BYTES:
                    break
    return held[:READ_BYTES].decode("utf-8", "replace")


def _answer(response: httpx.Response, said: str) -> WebhookAnswer:
    status = response.status_code
    if 200 <= status < 300:
        return WebhookAnswer(status, "")
    told = f": {said[:SHOWN_CHARACTERS]}" if said.strip() else ""
    elsewhere = ", which sends its callers elsewhere; that is not followed" if 300 <= status < 400 else ""
    return WebhookAnswer(
        status, f"it answered {status}{elsewhere}{told}", _patience(response.headers.get("retry-after"))
    )


def _patience(asked: str | None) -> float:
    """Seconds of a header `Retry-After`, which names them or a time; 0 without a usable one."""
    if asked is None:
        return 0.0
    if asked.isascii() and asked.isdigit() and len(asked) < 10:
        return min(float(asked), RETRY_AFTER_SECONDS)
    try:
        until = parsedate_to_datetime(asked)
    except (ValueError, OverflowError):
        return 0.0
    seconds = (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS)


def _reason(error: Exception) -> str:
    match error:
        case httpx.ConnectTimeout():
            return "no connection in time"
        case httpx.TimeoutException():
            return "it was silent for too long"
        case httpx.ConnectError():
            return f"no connection: {error}"
        case httpx.RemoteProtocolError():
            return "what it answers is not HTTP, or breaks off"
    return f"it cannot be reached: {error}"
