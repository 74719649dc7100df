"""What reads words of strangers answers for any of them: with a value, or with the one error that it promises."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drone.models.body import EventStreamParser
from drone.sandbox.places.paths import PathError, Workspace
from drone.tools.frame.schema import Arguments, BadArguments
from drone.tools.frame.tool import ToolContext
from mcc.definitions.front_matter import DefinitionError, YamlProblem, split
from mcc.definitions.yaml_text import parse

FEW = settings(max_examples=150, deadline=None)
SURROGATES = st.text(st.characters(codec=None, categories=None), max_size=60)
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"data: {}", b"data:", b"event: x", b": comment", b"id: 1", b"", b"data: [DONE]", b"retry: 1"]
        ),
        st.binary(max_size=30),
    ),
    max_size=20,
)


def taken(content: bytes, cuts: list[int]) -> list[tuple[bytes, bytes]]:
    stream, events, begin = EventStreamParser(), [], 0
    for end in [*sorted(cut % (len(content) + 1) for cut in cuts), len(content)]:
        events += stream.feed(content[begin:end])
        begin = end
    return [(bytes(name), bytes(data)) for name, data in events]


@FEW
@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 600), max_size=12))
def test_a_stream_of_events_is_the_same_however_it_is_cut(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    content = end.join(lines) + end + end
    assert taken(content, cuts) == taken(content, [])


@FEW
@given(
    st.one_of(
        SURROGATES, st.lists(st.sampled_from(list("-:[]{}&*!|>'\"#%@`,?\n \tab0~<=.")), max_size=120).map("".join)
    )
)
def test_front_matter_is_a_value_or_a_problem_with_its_line(text: str) -> None:
    with contextlib.suppress(DefinitionError, YamlProblem):
        parts = split(f"---\n{text}\n---\nprompt", "agent.md")
        parse(parts.front)


def some(path: str, count: int = 1, names: list[str] | None = None, deep: dict[str, list[int]] | None = None) -> str:
    """Takes something.

    Args:
        path: Where.
        count: How many.
        names: Which.
        deep: More.
    """
    return path


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), SURROGATES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(SURROGATES, inner, max_size=4)),
    max_leaves=12,
)
NAMES = st.one_of(st.sampled_from(["path", "count", "names", "deep", "Path", "__proto__", "file"]), SURROGATES)


@FEW
@given(st.dictionaries(NAMES, JSON, max_size=5))
def test_arguments_of_a_call_are_taken_or_refused_in_a_sentence(arguments: dict[str, object]) -> None:
    try:
        taken = Arguments(some, {}, ToolContext).checked(arguments)
    except BadArguments as error:
        assert str(error)
    else:
        assert isinstance(taken["path"], str)


PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "a", "a.txt", "out", "~", "/", "proc", "self", "\0", "a\n", "\ud800", "x" * 300]),
    SURROGATES,
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("around") / "inside"
    (root / "a" / "a").mkdir(parents=True)
    (root / "a.txt").write_text("inside")
    (root.parent / "secret").write_text("outside")
    (root / "out").symlink_to(root.parent)
    return Workspace(root)


@FEW
@given(parts=st.lists(PARTS, max_size=8), absolute=st.booleans())
def test_no_path_leads_outside(workspace: Workspace, parts: list[str], absolute: bool) -> None:
    path = ("/" if absolute else "") + "/".join(parts)
    try:
        fd = workspace.open_beneath(path)
    except PathError as error:
        assert str(error)
        return
    try:
        real = Path(os.readlink(f"/proc/self/fd/{fd}"))
        assert real.is_relative_to(os.path.realpath(workspace.root))
    finally:
        os.close(fd)
