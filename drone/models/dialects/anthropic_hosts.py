"""Where models of Anthropic's form are asked: at Anthropic itself, and at the clouds that serve the same form."""

from dataclasses import dataclass
from urllib.parse import quote

from drone.models.remote import Endpoint

VERSION = "2023-06-01"
VERTEX_VERSION = "vertex-2023-10-16"

VERTEX = "vertex"
_BEARERS = frozenset({VERTEX, "bedrock"})


@dataclass(frozen=True, slots=True)
class Place:
    """The address of requests, the headers besides the usual ones, and what stands in the body in place of the model's
    name where the address has that."""

    url: str
    headers: dict[str, str]
    version_in_body: str = ""


def place_of(endpoint: Endpoint, key: str) -> Place:
    """Of this endpoint. Google's cloud names model and method in the path, others do as Anthropic.

    `base_url` at Google's cloud ends in `/publishers/anthropic/models`, at Bedrock in `/anthropic`.
    """
    bearer = {"authorization": f"Bearer {key}"} if key else {}
    if endpoint.provider == VERTEX:
        method = "streamRawPredict" if endpoint.stream else "rawPredict"
        url = f"{endpoint.base_url}/{quote(endpoint.model, safe='@-._')}:{method}"
        return Place(url, bearer, VERTEX_VERSION)
    base = endpoint.base_url if endpoint.base_url.endswith("/v1") else f"{endpoint.base_url}/v1"
    own = bearer if endpoint.provider in _BEARERS else ({"x-api-key": key} if key else {})
    return Place(f"{base}/messages", {"anthropic-version": VERSION, **own})
