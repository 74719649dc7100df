"""Web pages as text, and search results."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from drone.access import web_tools
from drone.egress.http1 import MessageHead
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from drone.tools.git.program import Git
from drone.tools.web.search import hits_of
from drone.tools.web.text import charset_of, decoded, words_of
from mcc.configuration.network import Web, WebSearch
from mcc.contracts.journal import Outcome
from tests.drone.tools.web_scene import page, scene

ARTICLE = b"""<!doctype html><html><head><title>On  bees</title><style>p{}</style></head><body>
<nav><a href=/>Home</a></nav><script>steal()</script><article><h1>On bees</h1>
<p>Bees dance to tell each other where flowers are, which took people a long time to find out about them.</p>
<p>The second paragraph says that a colony has up to fifty thousand of them.</p></article></body></html>"""


async def test_a_page_is_its_title_and_its_text() -> None:
    async with scene(lambda head, body: page(ARTICLE)) as web:
        output = await web.fetch("http://a.test/bees?q=1#part")
    assert not output.is_error
    assert output.content.startswith("http://a.test/bees?q=1\nOn bees\n\n")
    assert "fifty thousand" in output.content and "steal()" not in output.content and "p{}" not in output.content


async def test_what_a_page_says_is_marked_as_the_words_of_strangers() -> None:
    async with scene(lambda head, body: page(ARTICLE)) as web:
        assert all(spec.untrusted and spec.effects == "network" for spec in web.tools.specs())


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_plain_text_and_json_come_as_they_are(coding: str) -> None:
    text = '{"a": "ü"}'.encode()

    def answer(head: MessageHead, body: bytes) -> bytes:
        packed = gzip.compress(text) if coding == "gzip" else text
        return page(packed, "application/problem+json", f"Content-Encoding: {coding}")

    async with scene(answer) as web:
        assert (await web.fetch("http://x.b.test/")).content.endswith('\n\n{"a": "ü"}')


async def test_a_redirect_is_followed_to_where_it_may_lead() -> None:
    def answer(head: MessageHead, body: bytes) -> bytes:
        if head.start_line[1] == b"/":
            return page(b"", "text/html", "Location: //x.b.test/new", "Set-Cookie: a=b", status="302 Found")
        return page(b"here", "text/plain")

    async with scene(answer) as web:
        output = await web.fetch("http://a.test/")
        (first, _), (second, _) = web.host.asked
    assert output.content == "http://x.b.test/new\ntext/plain\n\nhere"
    assert first.all_of(b"host") == [b"a.test"] and second.all_of(b"host") == [b"x.b.test"]
    assert not second.all_of(b"cookie")


async def test_an_error_page_is_an_error() -> None:
    async with scene(lambda head, body: page(b"gone", "text/plain", status="404 Not Found")) as web:
        output = await web.fetch("http://a.test/x")
    assert output.is_error and output.outcome is Outcome.ERROR
    assert output.content == "http://a.test/x answered 404 Not Found: gone"


async def test_what_is_no_text_is_told_by_its_kind() -> None:
    async with scene(lambda head, body: page(b"\x89PNG", "image/png")) as web:
        output = await web.fetch("http://a.test/x.png")
    assert output.is_error and "image/png, 4 bytes" in output.content


@pytest.mark.parametrize(
    ("body", "said", "text"),
    [
        ("ü".encode(), "", "ü"),
        ("ü".encode("latin-1"), "iso-8859-1", "ü"),
        (b"\x80", "ISO-8859-1", "€"),
        ("ü".encode("utf-16"), "latin-1", "ü"),
        (b'<meta charset="koi8-r">' + "я".encode("koi8-r"), "", '<meta charset="koi8-r">я'),
        (
            b"<meta content='text/html; charset=windows-1251'>\xff",
            "",
            "<meta content='text/html; charset=windows-1251'>я",
        ),
        ("ü".encode(), "no-such-charset", "ü"),
        (b"a", "zlib", "a"),
        (b"a", "unicode_escape", "a"),
        (b"a", "idna", "a"),
        (b"\xff\xfe", "x" * 10_000, ""),
        (b"\xc3", "utf-8", "\ufffd"),
        (b"charset=", "", "charset="),
    ],
)
def test_a_page_is_read_in_the_charset_that_it_is_written_in(body: bytes, said: str, text: str) -> None:
    assert decoded(body, said) == text


def test_a_charset_that_is_no_text_is_not_used() -> None:
    assert charset_of(b"", "rot13") == charset_of(b"", "undefined") == charset_of(b"", "utf-7") == "utf-8"


def test_without_trafilatura_a_page_is_the_words_that_it_shows() -> None:
    title, words = words_of(ARTICLE.decode())
    assert title == "On bees"
    assert words.splitlines()[:2] == ["Home", "On bees"] and "steal()" not in words


def test_a_head_that_is_never_closed_hides_nothing() -> None:
    assert words_of("<head><title>t</title><body>a<br>b &amp; c")[1] == "a\nb & c"


HITS: list[dict[str, Any]] = [
    {"title": "A  title", "url": "https://a.test/", "content": "some\nwords"},
    {"title": None, "url": "https://b/"},
]
LISTED = "1. A title\n   https://a.test/\n   some words\n2. \n   https://b/\n   "


def searching(head: MessageHead, body: bytes) -> bytes:
    hits = [{**one, "description": one.get("content")} for one in HITS]
    said = {"web": {"results": hits}} if head.all_of(b"x-subscription-token") else {"results": HITS}
    return page(json.dumps(said).encode(), "application/json")


@pytest.mark.parametrize(
    ("table", "line", "header", "body"),
    [
        ({"backend": "searxng"}, b"/search?q=bees+%26+co&format=json", None, b""),
        ({"backend": "brave", "key_env": "K"}, b"/?q=bees+%26+co&count=2", (b"x-subscription-token", b"the-key"), b""),
        (
            {"backend": "tavily", "key_env": "K"},
            b"/",
            (b"authorization", b"Bearer the-key"),
            b'{"query": "bees & co", "max_results": 2}',
        ),
    ],
    ids=["searxng", "brave", "tavily"],
)
async def test_a_search_engine_is_asked_in_its_own_way(
    table: dict[str, str], line: bytes, header: tuple[bytes, bytes] | None, body: bytes
) -> None:
    search = WebSearch.model_validate({**table, "url": "http://engine.test"})
    async with scene(searching, web=Web(search=search), key="the-key") as web:
        output = await web.call("web_search", query="bees & co", limit=2)
        ((head, sent),) = web.host.asked
    assert output.content == LISTED
    assert head.start_line[1] == line and sent == body
    assert header is None or head.all_of(header[0]) == [header[1]]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page(b"{", "application/json"), "is not understood"),
        (page(b"[" * 100_000, "application/json"), "is not understood"),
        (page(b'{"results": 7}', "application/json"), "is not understood"),
        (page(b'{"results": [7, {"title": "no address"}]}', "application/json"), "none of its results can be read"),
        (page(b'{"error": {"code": "OVER_QUOTA"}}', "application/json"), "says: {"),
        (page(b'["results"]', "application/json"), "is not understood"),
        (page(b"no", status="429 Too Many"), "searxng answered 429 Too Many"),
        (page(b"", "text/html", "Location: http://a.test/", status="302 Found"), "sends its callers elsewhere"),
    ],
)
async def test_a_search_that_fails_is_told(answer: bytes, said: str) -> None:
    search = WebSearch(backend="searxng", url="http://engine.test")
    async with scene(lambda head, body: answer, web=Web(search=search)) as web:
        output = await web.call("web_search", query="bees")
    assert output.is_error and said in output.content


ODD = [
    7,
    {"title": "no address"},
    {"title": ["Two", 3, "texts"], "url": "https://a.test/", "content": None, "description": "some words"},
    {"title": {"x": 1}, "url": "https://b.test/", "content": {"html": "x"}, "snippet": "others"},
]


@pytest.mark.parametrize("backend", ["searxng", "brave", "tavily"])
def test_an_odd_part_of_a_result_costs_itself(backend: Any) -> None:
    search = WebSearch.model_validate({"backend": backend, "key_env": "K", "url": "http://engine.test"})
    for answer in (
        {"results": ODD},
        {"web": {"results": ODD}} if backend == "brave" else {"results": ODD, "web": None},
    ):
        hits = hits_of(search, json.dumps(answer).encode())
        assert [(hit.title, hit.url, hit.text) for hit in hits] == [
            ("Two texts", "https://a.test/", "some words"),
            ("", "https://b.test/", "others"),
        ]
    for nothing in ({"results": None}, {"web": None}, {}):
        assert hits_of(search, json.dumps(nothing).encode()) == []


def test_without_configuration_there_are_no_tools_of_the_web() -> None:
    names = {spec.name for spec in Toolbox.found().tools(None).specs()}
    assert not names & {"web_fetch", "web_search"}
    problems = {one.name: one.problem for one in Toolbox.found().capabilities() if one.name.startswith("web_")}
    assert problems.keys() == {"web_fetch", "web_search"} and all("mcc.toml" in f"{one}" for one in problems.values())


def test_what_the_operator_configures_is_offered(tmp_path: Path) -> None:
    table = {"hosts": ["a.test"], "search": {"backend": "brave", "key_env": "K"}}
    tools = Toolbox(None, Git.found(None), (), web=web_tools(Settings({}, data_dir=tmp_path, web=table)))
    names = {spec.name for spec in tools.tools(None).specs()}
    assert "web_fetch" in names and "web_search" not in names
    assert "variable K" in f"{tools.web.search_problem}"
