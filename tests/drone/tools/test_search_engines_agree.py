"""search_text finds the same lines in the same order with ripgrep and without."""

import asyncio
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.receipts import passages_shown
from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.files.listing import MAX_WHOLE_BYTES
from drone.tools.files.pattern import LinePattern, LinePatternError
from drone.tools.files.ripgrep import Ripgrep
from drone.tools.files.search import search_tool
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.journal import Outcome
from mcc.rules.reads import Passage
from tests.waiting import readable

Use = Callable[..., Coroutine[Any, Any, Output]]

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")

TREE: dict[str, bytes] = {
    "plain.txt": b"alpha\nbeta\ngamma\n",
    "no-final-newline.txt": b"alpha\nomega",
    "empty.txt": b"",
    "only-newlines.txt": b"\n\n\n",
    "crlf.txt": b"alpha\r\nbeta\r\n\r\nend\r\n",
    "old-mac.txt": b"alpha\rbeta\r",
    "mark.txt": b"\xef\xbb\xbfalpha first\nalpha second\n",
    "unicode.txt": "größe straße ſ K 日本語\nÄpfel\n".encode(),
    "latin.txt": b"caf\xe9 alpha\nna\xefve\n",
    "broken.txt": b"\xed\xa0\x80 alpha \xff\xfe\n\xc3\n",
    "utf16.txt": "alpha".encode("utf-16"),
    "binary.bin": b"alpha\n\x00\x01\x02alpha\n",
    "late-nul.txt": b"x" * 9_000 + b"\nalpha \x00 here\n",
    "huge-line.txt": b"y" * 300_000 + b"alpha" + b"z" * 300_000 + b"\nshort alpha\n",
    "-dash.txt": b"alpha --pre=sh\n",
    "a b.txt": b"alpha spaced\n",
    "new\nline.txt": b"alpha broken name\n",
    ".hidden/file": b"alpha hidden\n",
    ".git/config": b"alpha secret\n",
    ".gitignore": b"*.log\nout/\n!keep.log\n/only-here\n",
    "a.log": b"alpha log\n",
    "keep.log": b"alpha kept\n",
    "out/x.txt": b"alpha out\n",
    "only-here": b"alpha top\n",
    "sub/.gitignore": b"!*.log\nlocal/\n",
    "sub/b.log": b"alpha sub log\n",
    "sub/only-here": b"alpha below\n",
    "sub/local/c.txt": b"alpha local\n",
    "sub-order/z.txt": b"alpha order\n",
    "sub.order": b"alpha order\n",
    "src/code.py": b"def alpha_id(x):\n    return x*2 + (1)\n\n\nclass Beta:\n    pass\n",
}

PATTERNS = [
    "alpha",
    "^alpha",
    "alpha$",
    "^alpha$",
    "^$",
    "^",
    "$",
    "x*",
    ".",
    "a.*a",
    "[^a]lpha",
    "beta|omega",
    r"\balpha\b",
    r"\Balpha",
    r"\w+_id\(",
    r"\s$",
    r"^\s*$",
    r"\d",
    r"[\d(]",
    r"(?i)ALPHA",
    r"(?i)k",
    r"(?i)ſ",
    r"gr.ße",
    "caf.",
    "日本語",
    r"\p{Han}",
    r"\x{feff}",
    "[[:upper:]]",
    "[]x]",
    "a{,2}lpha",
    "(?:al)(?P<rest>pha)",
    r"\Aalpha",
    r"alpha\z",
    "--pre=sh",
    "\t",
    r"\Qx*2\E",
    "first|(?-m)^second",
    "zzzz",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for path, content in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"alpha other encoding\n")
    (root / "link.txt").symlink_to("plain.txt")
    (root / "linked").symlink_to("src")
    (root / "outside").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    return root


def searching(root: Path, ripgrep: Ripgrep | None = None) -> ToolSet:
    return FunctionTools([search_tool(ripgrep)], workspace=Workspace(root))


def with_ripgrep(root: Path) -> ToolSet:
    found = Ripgrep.found()
    assert found is not None
    return searching(root, found)


@needs_ripgrep
@pytest.mark.parametrize("more", [{}, {"case_sensitive": False}, {"literal": True}, {"context_lines": 1}], ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_both_engines_give_the_same_result(use: Use, tree: Path, pattern: str, more: dict[str, object]) -> None:
    ours = await use(searching(tree), "search_text", pattern=pattern, limit=2_000, **more)
    theirs = await use(with_ripgrep(tree), "search_text", pattern=pattern, limit=2_000, **more)
    assert theirs == ours
    assert not ours.is_error


@needs_ripgrep
@pytest.mark.parametrize(
    "scope", [{"path": "sub"}, {"glob": "*.log"}, {"glob": "!*.txt"}, {"path": "./src/../crlf.txt"}]
)
async def test_both_engines_agree_on_a_part_of_the_tree(use: Use, tree: Path, scope: dict[str, object]) -> None:
    ours = await use(searching(tree), "search_text", pattern="alpha", **scope)
    assert await use(with_ripgrep(tree), "search_text", pattern="alpha", **scope) == ours
    assert "\n1:" in ours.content


@needs_ripgrep
@pytest.mark.parametrize(
    "pattern", ["(", "a**", "(?=x)", "(?<!x)y", r"(a)\1", "[b-a]", "a{1001}", r"a\nb", "a\nb", "", "\ud800"]
)
async def test_both_engines_refuse_the_same_patterns_in_the_same_words(use: Use, tree: Path, pattern: str) -> None:
    ours = await use(searching(tree), "search_text", pattern=pattern)
    assert await use(with_ripgrep(tree), "search_text", pattern=pattern) == ours
    assert ours.is_error and ours.outcome is Outcome.ERROR


async def test_the_expected_lines_are_found_in_order(use: Use, tree: Path) -> None:
    output = await use(searching(tree), "search_text", pattern="^alpha")
    assert output.content.splitlines() == [
        "17 matching lines in 16 files, of 27 files in .",
        *("-dash.txt", "1:alpha --pre=sh"),
        *(".hidden/file", "1:alpha hidden"),
        *("a b.txt", "1:alpha spaced"),
        *('"caf\\udce9.txt"', "1:alpha other encoding"),
        *("crlf.txt", "1:alpha"),
        *("keep.log", "1:alpha kept"),
        *("late-nul.txt", "2:alpha  here"),
        *("mark.txt", "1:alpha first"),
        *("2:alpha second",),
        *('"new\\nline.txt"', "1:alpha broken name"),
        *("no-final-newline.txt", "1:alpha"),
        *("old-mac.txt", "1:alpha␍beta␍"),
        *("plain.txt", "1:alpha"),
        *("sub-order/z.txt", "1:alpha order"),
        *("sub.order", "1:alpha order"),
        *("sub/b.log", "1:alpha sub log"),
        *("sub/only-here", "1:alpha below"),
    ]


async def test_lines_around_a_match_are_shown_once(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{number}\n" for number in range(1, 21)))
    output = await use(searching(tmp_path), "search_text", pattern="^(3|5|15)$", context_lines=1)
    assert output.content.splitlines()[1:] == [
        "f",
        *("2-2", "3:3", "4-4", "5:5", "6-6"),
        "--",
        *("14-14", "15:15", "16-16"),
    ]


async def test_a_file_whose_name_begins_with_a_number_is_no_line_of_another(use: Use, tmp_path: Path) -> None:
    (tmp_path / "0-first").write_text("hit\n")
    (tmp_path / "0001-second.sql").write_text("other\nhit\n")
    output = await use(searching(tmp_path), "search_text", pattern="hit", context_lines=1)
    assert list(passages_shown("search_text", {}, output.content)) == [
        Passage("./0-first", 1, ("hit",)),
        Passage("./0001-second.sql", 1, ("other",)),
        Passage("./0001-second.sql", 2, ("hit",)),
    ]


async def test_a_search_says_when_it_was_cut(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hit\n" * 50)
    (tmp_path / "b").write_text("hit\n" * 50)
    cut = await use(searching(tmp_path), "search_text", pattern="hit", limit=60)
    assert cut.content.startswith("the first 60 matching lines in 2 files")
    assert cut.content.endswith("[Cut at 60 matching lines; narrow the pattern, path or glob, or raise limit.]")
    whole = await use(searching(tmp_path), "search_text", pattern="hit", limit=100)
    assert whole.content.startswith("100 matching lines") and "Cut" not in whole.content


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("files", ["2 files with a match, of 3 files in .", "a", "b"]),
        ("count", ["5 matching lines in 2 files, of 3 files in .", "a: 2", "b: 3"]),
    ],
)
async def test_only_the_files_with_a_match_are_told_where_that_is_asked(
    use: Use, tmp_path: Path, output: str, lines: list[str]
) -> None:
    for name, hits in (("a", 2), ("b", 3), ("c", 0)):
        (tmp_path / name).write_text("hit\n" * hits + "miss\n")
    tools = searching(tmp_path)
    assert (await use(tools, "search_text", pattern="hit", output=output)).content.splitlines() == lines
    cut = (await use(tools, "search_text", pattern="hit", output=output, limit=1)).content.splitlines()
    assert cut[0].startswith("the first ") and cut[1:2] == lines[1:2] and "Cut at 1 files" in cut[2]


async def test_what_was_not_searched_is_told(use: Use, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50_000_000_000)
    (tmp_path / "small").write_text("hit\n")
    output = await use(searching(tmp_path), "search_text", pattern="hit")
    assert output.content.splitlines() == [
        "1 matching line in 1 file, of 1 file in .",
        *("small", "1:hit"),
        f"[Not searched, because larger than {MAX_WHOLE_BYTES:,} bytes: 1 file.]",
    ]


async def test_a_long_line_is_shown_around_its_match(use: Use, tree: Path) -> None:
    output = await use(searching(tree), "search_text", pattern="alpha", path="huge-line.txt")
    _, first, second = output.content.splitlines()[1:]
    assert first.startswith("1:…yyy") and "alpha" in first and first.endswith("z…")
    assert len(first) < 600
    assert second == "2:short alpha"


async def test_terminal_commands_in_a_line_are_not_passed_on(use: Use, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"hit \x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07end\n")
    output = await use(searching(tmp_path), "search_text", pattern="hit")
    assert output.content.splitlines()[1:] == ["log", "1:hit red end"]


async def test_nothing_found_says_how_much_was_looked_at(use: Use, tree: Path) -> None:
    output = await use(searching(tree), "search_text", pattern="zzzz", glob="*.py")
    assert output == Output("No match in 1 file in . with *.py.")


@pytest.mark.parametrize("path", ["..", "/etc", "outside", "outside/passwd", "pipe", ".git"])
async def test_a_search_cannot_leave_the_workspace(use: Use, tree: Path, path: str) -> None:
    output = await use(searching(tree), "search_text", pattern="root", path=path)
    assert (output.is_error, output.outcome) == (True, Outcome.DENIED)


async def test_a_missing_path_is_told_with_its_neighbours(use: Use, tree: Path) -> None:
    output = await use(searching(tree), "search_text", pattern="x", path="plian.txt")
    assert output.is_error and "There is plain.txt" in output.content


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*c", "(x+x+)+y", "[ab]*a[ab]{300}c", "(.*)*(.*)*(.*)*z"])
def test_patterns_that_ruin_others_are_quick(pattern: str) -> None:
    started = time.process_time()
    assert list(LinePattern(pattern).lines(b"a" * 500_000 + b"!\n" + b"ab" * 250_000 + b"!\n")) == []
    assert time.process_time() - started < 20


def test_a_pattern_with_an_enormous_automaton_is_refused() -> None:
    with pytest.raises(LinePatternError, match="RE2"):
        LinePattern("((a{100}){100}){100}")
    with pytest.raises(LinePatternError, match="longer"):
        LinePattern("a" * 2_001)


@needs_ripgrep
async def test_ripgrep_reads_neither_its_configuration_nor_options_in_the_pattern(
    use: Use, tmp_path: Path, tree: Path
) -> None:
    (tmp_path / "ripgreprc").write_text("--files-without-match\n")
    script = tmp_path / "rg"
    real = shutil.which("rg")
    script.write_text(f'#!/bin/sh\necho "$RIPGREP_CONFIG_PATH$HOME" > "{tmp_path}/env"\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    found = Ripgrep.found(str(tmp_path))
    assert found is not None
    tools = searching(tree, found)
    output = await use(tools, "search_text", pattern="--pre=sh", literal=True)
    assert output.content.splitlines()[1:] == ["-dash.txt", "1:alpha --pre=sh"]
    assert (tmp_path / "env").read_text() == "\n"


@pytest.mark.parametrize("script", ["exit 2", "exit 1000", "printf 'nonsense\\0'; exit 2", None])
async def test_a_ripgrep_that_fails_changes_nothing(use: Use, tmp_path: Path, tree: Path, script: str | None) -> None:
    broken = tmp_path / "rg"
    if script is not None:
        broken.write_text(f"#!/bin/sh\n{script}\n")
        broken.chmod(0o755)
    ours = await use(searching(tree), "search_text", pattern="alpha")
    assert await use(searching(tree, Ripgrep(str(broken))), "search_text", pattern="alpha") == ours


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no pidfd")
async def test_a_ripgrep_that_hangs_ends_with_its_call(use: Use, tmp_path: Path, tree: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    script = tmp_path / "rg"
    script.write_text(f'#!/bin/sh\necho $$ > "{started}"\nexec sleep 600\n')
    script.chmod(0o755)
    stuck = asyncio.create_task(use(searching(tree, Ripgrep(str(script))), "search_text", pattern="alpha"))
    pid = int(await asyncio.to_thread(started.read_text))
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert await asyncio.to_thread(ended, pid)


def ended(pid: int) -> bool:
    """Whether the process is gone, or goes within ten seconds."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(fd, 10)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("alpha", "alpha"),
        (r"^\s*def \w+_id\(", "def "),
        ("abc*def+g?", "def"),
        (r"é\.x", "é.x"),
        ("a|b", ""),
        ("(abc)?d", ""),
        ("abc{0}", ""),
        ("[abc]d", ""),
        (r"\pLabc", ""),
        (r"\Qabc", ""),
        ("(?i)abc", ""),
    ],
)
def test_what_every_match_needs_is_read_from_the_pattern_or_nothing_is(source: str, needed: str) -> None:
    assert LinePattern(source).needed == needed


def test_a_text_that_could_be_folded_in_two_ways_or_be_no_argument_is_not_needed() -> None:
    assert LinePattern("STRASSE", case_sensitive=False).needed == "STRASSE"
    assert LinePattern("straße", case_sensitive=False).needed == ""
    assert LinePattern("a\0b", literal=True).needed == ""


ATOMS = [
    *(
        "a",
        "b",
        "k",
        "s",
        "é",
        "ſ",
        "K",
        "1",
        "_",
        " ",
        ".",
        "^",
        "$",
        "{",
        "}",
        "]",
        "-",
        "/",
        "&&",
        "#",
        "~",
        "<",
        ">",
    ),
    *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\b", r"\B", r"\A", r"\z", r"\.", r"\<", r"\-", r"\x61", r"\x{e9}"),
    *("[a-c]", "[^a]", "[^é]", r"[\w-]", r"[^\s]", r"[\D]", "[]a]", "[a-]", "[[:alpha:]]", "[^[:alpha:]]", "[a&&b]"),
    *(
        "[a--b]",
        "[~~]",
        "[[a]",
        "(?i)",
        "(?s)",
        "(?m)",
        "(?U)",
        r"\pL",
        r"\r",
        r"\Qa.\E",
        "[é-ü]",
        r"[\x00-\x7f]",
        r"\07",
    ),
]
GROUPS = ["(", "(?:", "(?i:", "(?P<n>", "(?<m>", "(?s-m:", "(?-i:", "(?im:"]
REPEATS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "{,2}", "{a}"]
PIECES = [
    *(
        b"a",
        b"b",
        b"k",
        b"s",
        b"1",
        b"_",
        b" ",
        b".",
        b"\t",
        b"\r",
        b"\r\n",
        b"\n",
        b"\n",
        b"-",
        b"{",
        b"]",
        b"&",
        b"~",
    ),
    *(
        b"\xff",
        b"\xe9",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\xef\xbb\xbf",
        b"\xf4\x90\x80\x80",
        b"\x00",
        b"\x0b",
        b"\x0c",
        b"<",
    ),
    *(text.encode() for text in ("é", "ſ", "K", "日", "\u2028", "\x85")),
]


def random_pattern(chance: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(chance.randint(1, 4)):
        nested = depth < 2 and chance.random() < 0.15
        parts.append(
            chance.choice(GROUPS) + random_pattern(chance, depth + 1) + ")" if nested else chance.choice(ATOMS)
        )
        parts.append(chance.choice(REPEATS) if chance.random() < 0.25 else "")
        parts.append("|" if chance.random() < 0.1 else "")
    return "".join(parts)


def plain_pattern(chance: random.Random) -> str:
    """Without groups, sets, counts and alternatives."""
    atoms = [*"abks1_ ", "é", "ſ", "K", "-", "<", ".", "^", "$", r"\.", r"\<", r"\b", r"\w", r"\A", r"\z"]
    return "".join(chance.choice(atoms) + chance.choice("***???++" + " " * 40).strip() for _ in range(3))


@needs_ripgrep
@pytest.mark.parametrize("seed", range(4))
def test_ripgrep_misses_no_file_whatever_the_pattern_and_the_bytes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    texts: dict[str, bytes] = {}
    for number in range(150):
        data = b"".join(chance.choice(PIECES) for _ in range(chance.randint(0, 12)))
        (tmp_path / f"f{number}").write_bytes(b"\xef\xbb\xbf" * (chance.random() < 0.2) + data)
        texts[f"f{number}"] = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    ripgrep = Ripgrep.found()
    assert ripgrep is not None
    narrowed = 0
    for _ in range(120):
        source, sensitive = chance.choice((random_pattern, plain_pattern))(chance), chance.random() < 0.7
        try:
            pattern = LinePattern(source, case_sensitive=sensitive)
        except LinePatternError:
            continue
        named = set(
            ripgrep.candidates(pattern, Workspace(tmp_path), list(texts), threading.Event(), time.monotonic() + 60)
        )
        narrowed += len(named) < len(texts)
        missed = [name for name in texts if name not in named and any(pattern.lines(texts[name]))]
        assert missed == [], (source, sensitive, pattern.needed)
    assert narrowed > 10
