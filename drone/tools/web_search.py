"""Search engines: how each is asked, and what its answer says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from drone.tools.web_wire import Request, WebError
from mcc.addresses import url_of
from mcc.configuration.network import WebSearch

_URLS: Mapping[str, str] = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Hit:
    """One result; all of it is the words of strangers."""

    title: str
    url: str
    text: str


def request_of(search: WebSearch, key: str, query: str, limit: int) -> Request:
    """The question to that engine. Raises `Refused`."""
    address = (search.url or _URLS[search.backend]).rstrip("/")
    accept = {"accept": "application/json"}
    match search.backend:
        case "searxng":
            asked = urlencode({"q": query, "format": "json"})
            place = address if address.endswith("/search") else f"{address}/search"
            return Request(url_of(f"{place}?{asked}"), headers=accept)
        case "brave":
            asked = urlencode({"q": query, "count": limit})
            return Request(url_of(f"{address}?{asked}"), headers={**accept, "x-subscription-token": key})
        case "tavily":
            body = json.dumps({"query": query, "max_results": limit}).encode()
            headers = {**accept, "content-type": "application/json", "authorization": f"Bearer {key}"}
            return Request(url_of(address), "POST", headers, body)


def hits_of(search: WebSearch, body: bytes) -> Sequence[Hit]:
    """What was found, the best first. Raises `WebError`."""
    try:
        said: Any = json.loads(body)
        found = said["web"]["results"] if search.backend == "brave" and "web" in said else said.get("results", [])
        return [_hit(one) for one in found if isinstance(one, dict)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WebError(f"What {search.backend} answered is not understood.") from error


def _hit(one: Mapping[str, Any]) -> Hit:
    text = one.get("content") or one.get("description") or ""
    return Hit(_line(one.get("title")), _line(one.get("url")), _line(text))


def _line(value: object) -> str:
    return " ".join(str(value or "").split())[:_SHOWN]
