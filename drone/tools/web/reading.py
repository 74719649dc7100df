"""The tools `web_fetch`, which reads a page, and `web_search`, which asks a search engine."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Annotated

from pydantic import Field

from drone.tools.frame.display_text import display_path, strip_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, threads_of, tool
from drone.tools.web.search import hits_of, request_of
from drone.tools.web.text import decoded, text_extractor
from mcc.addresses import AddressRefused, AddressRule, HostList, Url, url_of
from mcc.configuration.network import Web
from mcc.contracts.drones import NOT_CHOSEN
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import Text
from mcc.fetching import Fetched, FetchLimits, FetchRequest, WebError, WebWire
from mcc.side_process import CutOff, SideProcess

READING_SECONDS = 10.0
"""Processor time for extracting the text of a page."""

SECONDS = 330.0
"""The time limit of a call; longer than the longest time that [web] seconds allows for a page."""

_PAGE = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.5"
_HTML = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = ("json", "xml", "javascript", "x-www-form-urlencoded", "yaml", "toml", "x-sh", "sql")
_SEARCH_BYTES = 2_000_000
_ERROR_TEXT = 500

Query = Annotated[Text, Field(min_length=1, max_length=400)]
Limit = Annotated[int, Field(ge=1, le=20)]


def _no_secrets(data: bytes) -> bool:
    return False


@dataclass(frozen=True)
class WebTools:
    """The web tools. `key` is the search engine's. `is_secret` answers whether bytes hold a secret: requests with a
    secret in their address or query are refused."""

    web: Web
    wire: WebWire
    key: str = field(default="", repr=False)
    is_secret: Callable[[bytes], bool] = _no_secrets

    @classmethod
    def of(
        cls, web: Web, rule: AddressRule, key: str | None = None, is_secret: Callable[[bytes], bool] = _no_secrets
    ) -> "WebTools":
        return cls(web, WebWire(rule), key or "", is_secret)

    @property
    def fetch_problem(self) -> str | None:
        """Why `web_fetch` cannot be used and what to do about it, None if it can."""
        return None if self.web.hosts else f"{NOT_CHOSEN}no host may be asked; name hosts in [web] hosts of mcc.toml"

    @property
    def search_problem(self) -> str | None:
        """Why `web_search` cannot be used and what to do about it, None if it can."""
        search = self.web.search
        if search is None:
            return f"{NOT_CHOSEN}no search engine is chosen; add [web.search] to mcc.toml"
        if search.key_env and not self.key:
            return f"the variable {search.key_env} with the key of {search.backend} is not set"
        return None

    @tool(group="web_read", idempotent=True, seconds=SECONDS, effects="network")
    async def web_fetch(self, context: ToolContext, url: Text) -> str:
        """Read a web page as text, by its http or https address. Only hosts that the operator allows are asked.

        Args:
            url: The whole address.
        """
        limits = FetchLimits(self.web.seconds, int(self.web.max_mb * 1_000_000))
        try:
            request = FetchRequest(url_of(url), headers={"accept": _PAGE})
            page = await self.wire.fetch(request, limits, partial(self._check_allowed, lists=context.egress))
            title, text = await self._read(page, context)
        except AddressRefused as refused:
            raise ToolFailed(str(refused), Outcome.DENIED) from refused
        except WebError as error:
            raise ToolFailed(str(error)) from error
        if page.status >= 400:
            excerpt = f": {text[:_ERROR_TEXT]}" if text else "."
            raise ToolFailed(f"{page.url} answered {page.status} {strip_controls(page.reason)}{excerpt}")
        return f"{page.url}\n{title or page.media_type}\n\n{text or '(The page has no text.)'}"

    @tool(group="web_read", idempotent=True, seconds=SECONDS, effects="network")
    async def web_search(self, context: ToolContext, query: Query, limit: Limit = 8) -> str:
        """Search the web: titles, addresses and a few words of each, the best first.

        Args:
            query: What to look for.
            limit: How many results.
        """
        search = self.web.search
        if search is None:
            raise ToolFailed(f"There is no search: {self.search_problem}.")
        try:
            self._refuse_secrets(query.encode("utf-8", "replace"), "What you search for")
            request = request_of(search, self.key, query, limit)
            _check_egress(request.url, context.egress)
            answer = await self.wire.fetch(request, FetchLimits(self.web.seconds, _SEARCH_BYTES))
            if answer.status != 200:
                raise WebError(f"{search.backend} answered {answer.status} {strip_controls(answer.reason)}.")
            hits = hits_of(search, answer.body)[:limit]
        except AddressRefused as refused:
            raise ToolFailed(str(refused), Outcome.DENIED) from refused
        except WebError as error:
            raise ToolFailed(str(error)) from error
        lines = (f"{at}. {hit.title}\n   {hit.url}\n   {hit.text}" for at, hit in enumerate(hits, start=1))
        return "\n".join(lines) or "Nothing was found; ask in other words."

    def _check_allowed(self, url: Url, lists: Sequence[Sequence[str]]) -> None:
        """Raise `AddressRefused` unless the operator and all lists of the call allow the host."""
        _check_egress(url, lists)
        if not HostList(self.web.hosts).covers(url.endpoint):
            names = ", ".join(self.web.hosts[:20])
            raise AddressRefused(
                f"{url.endpoint} is not allowed. Hosts that may be fetched: {names}. Nothing was sent."
            )
        self._refuse_secrets(str(url).encode(), "This address")

    def _refuse_secrets(self, data: bytes, what: str) -> None:
        """Raise `AddressRefused` if the data, which the message calls `what`, holds a secret."""
        if self.is_secret(data):
            raise AddressRefused(f"{what} has a secret in it, which would leave with it. Nothing was sent.")

    async def _read(self, found: Fetched, context: ToolContext) -> tuple[str, str]:
        """Title and text of a page. Raises `WebError`."""
        is_html = found.media_type in _HTML
        is_text = found.media_type.startswith("text/") or _subtype(found.media_type) in _TEXT_TYPES
        if not is_html and not is_text:
            size = f"{len(found.body):,} bytes"
            raise WebError(f"{found.url} is no text but {display_path(found.media_type[:100])}, {size}.")
        text = decoded(found.body, found.charset)
        if not is_html:
            return "", text
        return await threads_of(context).tool(_extracted, text, context.stop)


async def _no_addresses(host: str) -> tuple[str, ...]:
    return ()


NO_WEB = WebTools.of(Web(), AddressRule(_no_addresses))
"""The web tools without configuration: they reach no host."""


def _check_egress(url: Url, lists: Sequence[Sequence[str]]) -> None:
    """Raise `AddressRefused` unless each list names the host."""
    for names in lists:
        if not HostList.lenient(names).covers(url.endpoint):
            left = ", ".join(names[:20]) or "no host"
            raise AddressRefused(f"{url.endpoint} is not left to this agent, which may reach {left}. Nothing was sent.")


def _subtype(media_type: str) -> str:
    """The subtype, or its suffix: `json` for `application/problem+json`."""
    return media_type.rpartition("/")[2].rpartition("+")[2]


def _extracted(html: str, stop: Event) -> tuple[str, str]:
    """Title and text of an HTML page, extracted in a separate process. Blocks. Raises `WebError`."""
    try:
        with closing(SideProcess(text_extractor, stop)) as aside:
            answer = aside.ask(html, READING_SECONDS)
    except (CutOff, ValueError) as error:
        raise WebError(f"The text of this page was not found: {error}.") from error
    return strip_controls(str(answer["title"])), str(answer["text"])
