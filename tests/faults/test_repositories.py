"""Orders that add lines to one file: what their model says to what it is told, and what counts as overwritten."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.faults.repositories import (
    DELETE,
    DONE,
    READ,
    SHELL,
    WRITE,
    Deed,
    deed_step,
    interrupted,
    overwritten,
    wrongly_reverted,
)

EDIT = Deed("a", "edit", rounds=2)


def talk(deed: Deed, *turns: tuple[str, Mapping[str, Any], str]) -> list[Mapping[str, Any]]:
    """The messages of a conversation in which these calls were made one by one, each with its result."""
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": deed.prompt}]
    for number, (name, arguments, result) in enumerate(turns):
        call = {"id": f"c{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages += [{"role": "assistant", "tool_calls": [call]}]
        messages += [
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"<untrusted 1>\n{result}\n</untrusted 1>"}
        ]
    return messages


def tally(*lines: str) -> tuple[str, Mapping[str, Any], str]:
    shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(("begun", *lines), 1))
    return READ, {"path": "tally.txt"}, f"tally.txt, lines 1-9 of 9, 99 bytes\n{shown}\n"


def written(*lines: str, result: str = "tally.txt: 1 line added, 0 removed") -> tuple[str, Mapping[str, Any], str]:
    return WRITE, {"path": "tally.txt", "content": "".join(f"{line}\n" for line in ("begun", *lines))}, result


def said(deed: Deed, *turns: tuple[str, Mapping[str, Any], str]) -> tuple[Sequence[str], str]:
    """The tools that the model wants next, and the file that it would write or what it answers."""
    step = deed_step({"messages": talk(deed, *turns)})
    assert step is not None
    whole = step.calls[0].arguments.get("content", "") if step.calls else step.text
    return [call.name for call in step.calls], whole


def test_a_model_reads_and_writes_what_it_has_read_with_its_line_below() -> None:
    assert said(EDIT) == ([READ, READ], "")
    assert said(EDIT, tally("b-1")) == ([WRITE, WRITE], "begun\nb-1\na-1\n")
    assert said(EDIT, tally(), written("a-1")) == ([READ, READ], "")
    assert said(EDIT, tally(), written("a-1"), tally("a-1"), written("a-1", "a-2"), tally("a-1", "a-2")) == ([], DONE)


@pytest.mark.parametrize("result", ["tally.txt is not as it was when you last read", "The outcome is not known"])
def test_a_line_that_was_not_written_is_written_again_unless_it_is_there(result: str) -> None:
    refused = written("a-1", result=result)
    assert said(EDIT, tally(), refused, tally("b-1")) == ([WRITE, WRITE], "begun\nb-1\na-1\n")
    assert said(EDIT, tally(), refused, tally("a-1")) == ([WRITE, WRITE], "begun\na-1\na-2\n")


def test_a_line_that_was_written_and_is_gone_is_not_written_again() -> None:
    assert said(EDIT, tally(), written("a-1"), tally("b-1")) == ([WRITE, WRITE], "begun\nb-1\na-2\n")
    shell = Deed("a", "shell", rounds=1)
    assert said(shell, tally(), (SHELL, {"command": "x"}, "did a-1"), tally()) == ([], DONE)
    assert said(shell, tally(), (SHELL, {"command": "x"}, "killed"), tally())[0] == [SHELL]


def test_one_that_asks_does_so_half_way_and_once() -> None:
    asks = Deed("a", "edit", rounds=2, asks=True)
    assert said(asks, tally())[0] == [WRITE, WRITE]
    assert said(asks, tally("a-1"))[0] == [DELETE]
    assert said(asks, tally("a-1"), (DELETE, {"path": asks.spare}, "deleted"), tally("a-1"))[0] == [WRITE, WRITE]


def test_other_requests_are_none_of_a_deed() -> None:
    assert deed_step({"messages": [{"role": "user", "content": "Hello"}]}) is None


def test_each_line_is_there_once() -> None:
    deeds = [EDIT, Deed("b", "shell", rounds=1)]
    assert overwritten(deeds, b"begun\na-1\nb-1\na-2\n") == []
    assert overwritten(deeds, b"begun\na-1\na-1\nc-1\na-2\n") == [
        "the line b-1 was overwritten",
        "the line a-1 is there 2 times",
        "nobody wrote the line 'c-1'",
    ]
    assert interrupted(EDIT, b"begun\na-1\nb-1\na-2\n") and not interrupted(EDIT, b"begun\na-1\na-2\nb-1\n")


FIRST = {"tally.txt": b"begun\n", "own/a.txt": b"before"}
LAST = {"tally.txt": b"begun\nb-1\na-1\na-2\n", "own/a.txt": b"a-2\n"}
FOLLOWED = {**LAST, "tally.txt": b"begun\na-1\na-2\nb-1\n"}
WITHOUT = {**FIRST, "tally.txt": b"begun\nb-1\n"}


@pytest.mark.parametrize(
    ("before", "after", "named", "right"),
    [
        (LAST, WITHOUT, None, True),
        (LAST, FIRST, None, False),
        (LAST, {**WITHOUT, "own/a.txt": b"a-2\n"}, None, False),
        (LAST, LAST, ["tally.txt"], False),
        (FOLLOWED, FOLLOWED, ["tally.txt"], True),
        (FOLLOWED, FOLLOWED, [], False),
        (FOLLOWED, FOLLOWED, ["own/a.txt", "tally.txt"], False),
        (FOLLOWED, {**FOLLOWED, "own/a.txt": b"before"}, ["tally.txt"], False),
        (FOLLOWED, WITHOUT, None, False),
    ],
)
def test_a_revert_brings_back_each_byte_or_names_what_others_wrote(
    before: Mapping[str, bytes], after: Mapping[str, bytes], named: Sequence[str] | None, right: bool
) -> None:
    assert (wrongly_reverted(EDIT, FIRST, before, after, named) == []) == right
