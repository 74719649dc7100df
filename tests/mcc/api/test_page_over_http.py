"""The page's shell and files over HTTP: open to everybody, the same at each address, kept by browsers per build."""

import gzip
import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from mcc.api.pages import takes_gzip
from mcc.console.files import installed
from mcc.console.shell import ADDRESSES

CONSOLE = installed()
PREFIX = "/agents"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def loads(self) -> list[str]:
        return [value for _, has in self.tags for value in (has.get("src"), has.get("href")) if value]


@pytest.fixture
def stranger(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client without a token."""
    del api.headers["authorization"]
    return api


@pytest.mark.parametrize("address", ADDRESSES)
async def test_each_address_is_the_shell_without_a_token_and_all_that_it_loads_is_there(
    stranger: httpx.AsyncClient, address: str
) -> None:
    path = re.sub(r"\{\w+\}", "01900000-0000-7000-8000-000000000000", address)
    answer = await stranger.get(path)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    loads = Tags(answer.text).loads()
    assert len(loads) > len(CONSOLE.scripts)
    for address_in_page in loads:
        # A proxy may put a prefix before all paths.
        at = urlsplit(urljoin(f"http://proxy{PREFIX}{path}", address_in_page)).path
        assert at.startswith(f"{PREFIX}/console/{CONSOLE.build}/")
        assert (await stranger.get(at.removeprefix(PREFIX))).status_code == 200, address_in_page


async def test_the_shell_has_nothing_that_its_policy_refuses(stranger: httpx.AsyncClient) -> None:
    tags = Tags((await stranger.get("/")).text).tags
    assert all(has.get("src") for tag, has in tags if tag == "script")
    assert not [tag for tag, _ in tags if tag in ("style", "base", "iframe", "object", "form")]
    assert not [name for _, has in tags for name in has if name == "style" or name.startswith("on")]


@pytest.mark.parametrize("path", ["/orders/", "/orders/a/b", "/orders/a/vs", "/sessions/a/b", "/nothing", "/me/x"])
async def test_an_address_that_the_page_lacks_stays_behind_the_door(stranger: httpx.AsyncClient, path: str) -> None:
    assert (await stranger.get(path)).status_code == 401


@pytest.mark.parametrize("name", CONSOLE.files)
async def test_a_file_is_kept_for_good_and_travels_compressed(stranger: httpx.AsyncClient, name: str) -> None:
    path = f"/console/{CONSOLE.build}/{name}"
    plain = await stranger.get(path, headers={"Accept-Encoding": "identity"})
    assert plain.status_code == 200 and "content-encoding" not in plain.headers
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["vary"] == "Accept-Encoding"
    packed = await stranger.get(path, headers={"Accept-Encoding": "br;q=1.0, gzip"})
    assert packed.content == plain.content
    if (compressed := CONSOLE.files[name].compressed) is not None:
        assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(compressed) == plain.content


@pytest.mark.parametrize("build", ["0" * 12, CONSOLE.build[:-1], CONSOLE.build.upper() + "0", "%2e%2e", ".."])
async def test_files_of_another_build_are_not_there_and_nobody_keeps_that(
    stranger: httpx.AsyncClient, build: str
) -> None:
    answer = await stranger.get(f"/console/{build}/app.js")
    assert answer.status_code in (401, 404) and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["", "nothing.js", "../files.py", "..%2ffiles.py", "/etc/passwd", "app.js/", "APP.JS"])
async def test_nothing_but_the_files_of_the_page_is_answered(stranger: httpx.AsyncClient, name: str) -> None:
    answer = await stranger.get(f"/console/{CONSOLE.build}/{name}")
    assert answer.status_code in (401, 404) and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("GZIP, deflate", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("", False),
        ("xgzip", False),
        ("deflate", False),
    ],
)
def test_what_a_browser_can_unpack_is_read_from_its_header(accepted: str, takes: bool) -> None:
    assert takes_gzip(accepted) is takes
