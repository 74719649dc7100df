"""Text of agents becomes nodes: everything in it is text, nothing is lost, and nothing takes long."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcc.contracts.invisible import count_invisible, escape_invisible
from mcc.rendering.nodes import ATTRIBUTES, TAGS, is_allowed_link
from mcc.rendering.renderer import LARGEST_BYTES, RenderingTime, Source, TextRenderer

BACKTICKS = "`" + "a" * 10 + "``` " * 60_000
UNCLOSED = "[" * 200_000
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) [b](JAVASCRIPT:alert(1)) [c](data:text/html,x) [d](vbscript:x) [e](file:///etc/passwd)",
    "![a](javascript:alert(1)) ![b](https://a.example/b.png) <javascript:alert(1)>",
    "[a](java&#x73;cript:alert(1)) [b](//evil.example) [c](/api/v1/orders) [d]( https://ok.example 't\"><b>')",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x9b31m",
    "user\u202egnp.exe \u2066x\u2069 \u200b\u00ad \ufeff",
    "&#x202e;&lt;b&gt;&#0;",
    "x" * 100_000,
    "😀" * 10_000,
    "> " * 500 + "deep",
    "- " * 500 + "deep",
    "*" * 5_000 + "a" + "*" * 5_000,
    "\ud800 lone",
    "| a |\n|---|\n" + "| b |\n" * 2_000,
    "```<b>\n</b>\n```",
    "~~~python onclick=alert(1)\nprint('<b>')\n~~~",
    "[x]: javascript:alert(1)\n[x] [y][x]",
    "# a\n## b\n### c\n#### d\n##### e\n###### f",
    "العربية‏ שלום",
)


@asynccontextmanager
async def renderer(**options: Any) -> AsyncIterator[TextRenderer]:
    made = TextRenderer(**options)
    try:
        yield made
    finally:
        made.close()


def elements(nodes: list[Any]) -> Iterator[list[Any]]:
    for node in nodes:
        if isinstance(node, list):
            yield node
            yield from elements(node[2:])


def text_of(nodes: list[Any]) -> str:
    """The text of nodes, with characters that were made visible as `escape_invisible` writes them."""

    def text(node: Any) -> str:
        if isinstance(node, str):
            return node
        within = "".join(map(text, node[2:]))
        return f"⟦{within}⟧" if node[1].get("class") == "ctl" else within

    return "".join(map(text, nodes))


async def test_nothing_but_known_tags_attributes_and_links_is_made_of_hostile_text() -> None:
    async with renderer() as rendering:
        for form in ("markdown", "output", "plain"):
            for nodes in await rendering.nodes([Source(text, form) for text in HOSTILE]):
                for tag, attributes, *_ in elements(nodes):
                    assert tag in TAGS and set(attributes) <= ATTRIBUTES
                    assert "href" not in attributes or is_allowed_link(attributes["href"])
                assert not count_invisible(text_of(nodes).replace("⟦", "").replace("⟧", ""))


async def test_what_looks_like_html_stays_as_it_was_written() -> None:
    async with renderer() as rendering:
        (nodes,) = await rendering.nodes([Source("<b onclick=x>hi</b>", "markdown")])
    assert nodes == [["p", {}, "<b onclick=x>hi</b>"]]


@pytest.mark.parametrize(
    "address", ["https://a.example/b?c#d", "http://a.example", "HTTPS://a.example", "mailto:a@b.example", "#e17"]
)
def test_links_lead_to_pages_mail_and_entries(address: str) -> None:
    assert is_allowed_link(address)


@pytest.mark.parametrize(
    "address",
    ["javascript:x", "https://a b", "#e17x", "#x", "/orders", "//a.example", "data:,x", "https://", "https:\n//a"],
)
def test_links_lead_nowhere_else(address: str) -> None:
    assert not is_allowed_link(address)


async def test_a_refused_link_is_the_text_that_was_written() -> None:
    async with renderer() as rendering:
        (nodes,) = await rendering.nodes([Source("see [here](javascript:alert(1))", "markdown")])
    assert nodes == [["p", {}, "see [here](javascript:alert(1))"]]


async def test_a_picture_is_a_link() -> None:
    async with renderer() as rendering:
        (nodes,) = await rendering.nodes([Source("![a shot](https://a.example/b.png)", "markdown")])
    assert nodes == [["p", {}, ["a", {"href": "https://a.example/b.png"}, "a shot"]]]


async def test_the_same_characters_are_made_visible_as_in_an_approval() -> None:
    every = "".join(map(chr, [*range(0x20), *range(0x7F, 0x3000), 0xD800, 0xE000, 0xFE0F, 0xE0101, 0x1D159]))
    async with renderer() as rendering:
        nodes, coloured = await rendering.nodes([Source(every, "plain"), Source(every, "output")])
    assert text_of(nodes) == text_of(coloured) == escape_invisible(every)


async def test_colours_of_a_terminal_become_classes_and_other_sequences_stay_visible() -> None:
    async with renderer() as rendering:
        (nodes,) = await rendering.nodes([Source("\x1b[1;31mred\x1b[39m\x1b[38;5;9mb\x1b[0m\x1b[2J", "output")])
    red, bold = ["span", {"class": "a1 a31"}, "red"], ["span", {"class": "a1"}, "b"]
    assert nodes == [["pre", {}, red, bold, ["span", {"class": "ctl"}, "U+001B"], "[2J"]]


async def test_code_is_coloured_and_nothing_of_it_is_lost() -> None:
    shuffled = random.Random(7)
    texts = ["".join(shuffled.choices("\r\n\t 'abc\"#{}()\u202e\x00", k=300)) + ";" for _ in range(40)]
    languages = ("python", "json", "yaml", "html", "diff", "console", "no such language")
    async with renderer() as rendering:
        for language in languages:
            sources = [Source(f"~~~{language}\n{text}\n~~~", "markdown") for text in texts]
            for text, (block, *rest) in zip(texts, await rendering.nodes(sources), strict=True):
                # Markdown itself has other line ends, and no NUL.
                read = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
                assert not rest and text_of([block]) == escape_invisible(read + "\n")
            names = [Source(text, name=f"a.{language}") for text in texts]
            for text, lines in zip(texts, await rendering.lines(names), strict=True):
                shown = ("".join(f"⟦{part}⟧" if kind == "ctl" else str(part) for kind, part in line) for line in lines)
                assert "\n".join(shown) == escape_invisible(text)


async def test_a_file_is_coloured_by_its_name() -> None:
    async with renderer() as rendering:
        (lines,) = await rendering.lines([Source("def a():\n    '''b\n    c'''", name="x/y.py")])
    assert lines[0][0] == ("k", "def") and lines[2] == [("sd", "    c'''")]


async def test_a_text_that_takes_too_long_is_shown_as_it_is_and_the_others_are_rendered() -> None:
    slow = "*a_ " * 50_000
    async with renderer(seconds=0.3) as rendering:
        good, shown = await rendering.nodes([Source("*a*", "markdown"), Source(slow, "markdown")])
        assert good == [["p", {}, ["em", {}, "a"]]] and shown == [["pre", {}, slow]]
        started = rendering.starts
        assert await rendering.nodes([Source(slow, "markdown")]) == [[["pre", {}, slow]]]
        assert rendering.starts == started, "it is not tried again"


async def test_a_request_that_asks_several_times_has_its_patience_once() -> None:
    patience = RenderingTime(0.0)
    async with renderer(seconds=0.3) as rendering:
        for number in range(3):
            slow = f"{number} " + "*a_ " * 50_000
            assert await rendering.nodes([Source(slow, "markdown")], patience) == [[["pre", {}, slow]]]
        assert rendering.starts == 1, "the first one had the process killed, and no other was tried"
        assert await rendering.nodes([Source("*a*", "markdown")]) == [[["p", {}, ["em", {}, "a"]]]]


async def test_a_long_text_is_shown_as_it_is() -> None:
    text = "*a*\n" * (LARGEST_BYTES // 4 + 1)
    async with renderer() as rendering:
        assert await rendering.nodes([Source(text, "markdown")]) == [[["pre", {}, text]]]
        assert rendering.starts == 0


async def test_no_more_is_kept_than_fits() -> None:
    async with renderer(kept_bytes=10_000) as rendering:
        for number in range(60):
            await rendering.nodes([Source(f"{number} " + "x" * 500, "markdown")])
            assert 0 < rendering.size <= 10_000
