"""What a script promises: the same tree for the same prompt, read back from requests of both wire formats."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.faults.script import (
    KEEP,
    MOST_CHILDREN,
    MOST_STEPS,
    STRANGE,
    SUBMIT,
    Part,
    Play,
    asked,
    expected,
    prompt_of,
    reply,
)

SEEDS = range(200)


def chat(part: Part, steps: int) -> Mapping[str, Any]:
    """An OpenAI request of this agent after so many of its steps."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": part.prompt},
    ]
    for step in part.steps[:steps]:
        messages.append({"role": "assistant", "content": step.text})
        messages += [{"role": "tool", "content": json.dumps(call.arguments)} for call in step.calls]
    return {"messages": messages}


def blocks(part: Part, steps: int) -> Mapping[str, Any]:
    """The same as an Anthropic request."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": part.prompt}]}]
    for step in part.steps[:steps]:
        messages.append({"role": "assistant", "content": [{"type": "text", "text": step.text}]})
        results = [{"type": "tool_result", "content": json.dumps(call.arguments)} for call in step.calls]
        messages.append({"role": "user", "content": results})
    return {"messages": messages}


@pytest.mark.parametrize("request_of", [chat, blocks])
def test_every_reply_depends_on_order_agent_and_step_alone_and_makes_the_expected_tree(request_of: Any) -> None:
    for seed in SEEDS:
        tree = expected(prompt_of(f"order-{seed}", seed))
        for part in tree.root.walk():
            for number, step in enumerate(part.steps):
                found = asked(request_of(part, number))
                assert found is not None
                assert (found.play.key, found.play.path, found.step) == (f"order-{seed}", part.path, number)
                assert reply(found) == step


def test_trees_have_up_to_three_children_and_twelve_steps_and_every_mark_once() -> None:
    trees = [expected(prompt_of("x", seed)) for seed in SEEDS]
    assert {len(tree.root.children) for tree in trees} == set(range(MOST_CHILDREN + 1))
    assert {len(tree.root.steps) for tree in trees} == set(range(1, MOST_STEPS + 1))
    for tree in trees:
        marks = [mark for _, mark in tree.effects()]
        assert len(marks) == len(set(marks))


def test_the_last_step_of_an_auditor_hands_its_report_in_and_all_others_answer() -> None:
    parts = [part for seed in SEEDS for part in expected(prompt_of("x", seed)).root.walk()]
    for part in parts:
        names = [call.name for call in part.steps[-1].calls]
        assert names == ([SUBMIT] if part.report else [])
    assert any(part.report for part in parts)


def test_what_a_prompt_asks_for_is_read_back_from_it() -> None:
    prompt = prompt_of("key-1", 5, children=2, steps=4, linger_seconds=1.5, strange=True)
    assert Play.of(prompt) == Play("key-1", 5, "master", 2, 4, 1.5, True)
    tree = expected(prompt)
    assert (len(tree.root.steps), len(tree.root.children)) == (4, 2)
    assert STRANGE in tree.root.answer


def test_a_script_that_keeps_files_says_so_in_the_prompt_of_every_agent() -> None:
    prompt = prompt_of("key-1", 5, children=2, steps=9, keeps=True)
    parts = list(expected(prompt).root.walk())
    plays = [Play.of(part.prompt) for part in parts]
    assert len(plays) == 3 and all(play is not None and play.keeps for play in plays)
    assert KEEP in {call.name for part in parts for step in part.steps for call in step.calls}
    without = expected(prompt_of("key-1", 5, children=2, steps=9)).root.walk()
    assert KEEP not in {call.name for part in without for step in part.steps for call in step.calls}


def test_the_results_of_tools_and_what_people_say_in_between_do_not_change_whose_turn_it_is() -> None:
    tree = expected(prompt_of("x", 1, children=1, steps=3))
    request = {**chat(tree.root, 2)}
    request["messages"] = [*request["messages"], {"role": "user", "content": "Mind the gulls."}]
    found = asked(request)
    assert found is not None and (found.play.path, found.step) == ("master", 2)


def test_a_request_without_a_script_belongs_to_none() -> None:
    assert asked({"messages": [{"role": "user", "content": "Good morning"}]}) is None
    with pytest.raises(ValueError, match="no script"):
        expected("Good morning")


def test_a_step_after_the_last_repeats_it() -> None:
    play = Play("x", 2)
    last = expected(prompt_of("x", 2)).root.steps[-1]
    found = asked(chat(expected(prompt_of("x", 2)).root, 99))
    assert found is not None and found.play.key == play.key
    assert reply(found) == last
