"""Search engines: the request to each, and the parsing of its response."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from drone.tools.web.wire import FetchRequest, WebError
from mcc.addresses import url_of
from mcc.configuration.network import WebSearch

_URLS: Mapping[str, str] = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Hit:
    """One result; all of its text is untrusted."""

    title: str
    url: str
    text: str


def request_of(search: WebSearch, key: str, query: str, limit: int) -> FetchRequest:
    """The request to the configured engine. Raises `AddressRefused` if its address cannot be used."""
    address = (search.url or _URLS[search.backend]).rstrip("/")
    accept = {"accept": "application/json"}
    match search.backend:
        case "searxng":
            parameters = urlencode({"q": query, "format": "json"})
            endpoint = address if address.endswith("/search") else f"{address}/search"
            return FetchRequest(url_of(f"{endpoint}?{parameters}"), headers=accept)
        case "brave":
            parameters = urlencode({"q": query, "count": limit})
            return FetchRequest(url_of(f"{address}?{parameters}"), headers={**accept, "x-subscription-token": key})
        case "tavily":
            body = json.dumps({"query": query, "max_results": limit}).encode()
            headers = {**accept, "content-type": "application/json", "authorization": f"Bearer {key}"}
            return FetchRequest(url_of(address), "POST", headers, body)


def hits_of(search: WebSearch, body: bytes) -> Sequence[Hit]:
    """The results, the best first. Raises `WebError`."""
    try:
        answer: Any = json.loads(body)
        in_web = search.backend == "brave" and "web" in answer
        results = answer["web"]["results"] if in_web else answer.get("results", [])
        return [_hit(result) for result in results if isinstance(result, dict)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WebError(f"What {search.backend} answered is not understood.") from error


def _hit(result: Mapping[str, Any]) -> Hit:
    text = result.get("content") or result.get("description") or ""
    return Hit(_line(result.get("title")), _line(result.get("url")), _line(text))


def _line(value: object) -> str:
    return " ".join(str(value or "").split())[:_SHOWN]
