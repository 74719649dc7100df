"""Search engines: the request to each, and the parsing of its response."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from mcc.addresses import url_of
from mcc.configuration.network import WebSearch
from mcc.fetching import FetchRequest, WebError

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
    """The request to the configured engine. Raises `Refused` if its address cannot be used."""
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
    """The results that can be read, the best first. Raises `WebError` for what is no list of results, and for a report
    of an error in its place."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WebError(f"What {search.backend} answered is not understood.") from error
    if not isinstance(answer, dict):
        raise WebError(f"What {search.backend} answered is not understood.")
    web = answer.get("web") if search.backend == "brave" else None
    results = web.get("results") if isinstance(web, dict) else answer.get("results")
    if results is None and (reported := next((answer[key] for key in _REPORTS if answer.get(key)), None)) is not None:
        raise WebError(f"{search.backend} found nothing and says: {_line(json.dumps(reported, ensure_ascii=False))}")
    if results is not None and not isinstance(results, list):
        raise WebError(f"What {search.backend} answered is not understood: its results are no list.")
    hits = [_hit(result) for result in results or () if isinstance(result, dict)]
    if results and not any(hits):
        raise WebError(f"What {search.backend} answered is not understood: none of its results can be read.")
    return [hit for hit in hits if hit is not None]


_REPORTS = ("error", "errors", "detail", "message")
_TEXTS = ("content", "description", "snippet")


def _hit(result: Mapping[str, Any]) -> Hit | None:
    """One result with what can be read of it; None without an address, by which a result is of use."""
    title, url = _line(result.get("title")), _line(result.get("url"))
    text = next((line for key in _TEXTS if (line := _line(result.get(key)))), "")
    return Hit(title, url, text) if url else None


def _line(value: object) -> str:
    """A text, or texts in a list, on one line; nothing for other values."""
    if isinstance(value, list):
        value = " ".join(one for one in value if isinstance(one, str))
    return " ".join(value.split())[:_SHOWN] if isinstance(value, str) else ""
