"""The bounds of an order's fields: accepted and refused values."""

from typing import Any

import pytest
from pydantic import ValidationError

from mcc.contracts.control import NewControl
from mcc.contracts.limits import MAX_DEPTH, Limits
from mcc.contracts.order import PROMPT_CHARACTERS, NewFork, NewOrder, WhenBusy
from mcc.contracts.sessions import NewSession
from mcc.contracts.usage import Usage

PROMISED = {
    "rounds": 50,
    "parallel_tool_calls": 16,
    "subagent_rounds": 24,
    "tool_calls": 200,
    "output_tokens": 200_000,
    "subagent_output_tokens": 20_000,
    "input_tokens": None,
    "cached_input_tokens": None,
    "reasoning_tokens": None,
    "warn_share": 0.7,
    "unknown_price": "warn",
    "total_tokens": None,
    "cost_usd": None,
    "wall_seconds": 3_600,
    "depth": 3,
    "subagents_per_call": 5,
    "spawns": 50,
    "concurrency": 3,
    "model_call_seconds": 180,
    "tool_seconds": 120,
}


def test_the_limits_are_those_that_the_interface_promises() -> None:
    assert Limits().model_dump() == PROMISED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, 0) for name in ("rounds", "output_tokens", "total_tokens", "concurrency", "subagents_per_call")],
        *[(name, -1) for name in PROMISED],
        *[(name, 0) for name in ("wall_seconds", "model_call_seconds", "tool_seconds")],
        *[(name, float("inf")) for name in ("wall_seconds", "cost_usd", "tool_seconds")],
        *[(name, float("nan")) for name in ("wall_seconds", "cost_usd")],
        ("wall_seconds", 30 * 86_400 + 1),
        ("rounds", 1_000_000_001),
        ("rounds", 1.5),
        ("rounds", "many"),
        *[("rounds", value) for value in ("5", True, 5.0)],
        *[(name, value) for name in ("wall_seconds", "cost_usd") for value in ("5", True)],
        ("depth", MAX_DEPTH + 1),
        ("depht", 1),
    ],
)
def test_a_limit_out_of_bounds_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        Limits.model_validate({name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("depth", 0), ("depth", MAX_DEPTH), ("spawns", 0), ("tool_calls", 0), ("cost_usd", 0)]
)
def test_a_limit_may_forbid_or_go_to_its_bound(name: str, value: int) -> None:
    assert getattr(Limits.model_validate({name: value}), name) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", ""),
        ("prompt", "x" * (PROMPT_CHARACTERS + 1)),
        ("prompt", 7),
        ("prompt", None),
        ("kind", "dance"),
        ("session_id", "not-an-id"),
        ("session_id", "01900000-0000-7000-8000-00000000000G"),
        ("agent", ""),
        ("agent", "-begins with a dash"),
        ("agent", "a" * 65),
        ("agent", "../master"),
        ("model", "two words"),
        ("model", "m" * 201),
        ("workspace", ""),
        ("workspace", "/srv/\x00"),
        ("workspace", "/" + "x" * 4_096),
        ("ref", "--upload-pack=x"),
        ("ref", "a b"),
        ("priority", -1),
        ("priority", 10),
        ("priority", 1.5),
        ("priority", True),
        ("priority", "5"),
        ("queue", "a queue"),
        ("when_busy", "shout"),
        ("not_before", "2026-01-31T12:00:00"),
        ("not_before", "soon"),
        ("expires_at", "2026-01-31 12:00"),
        ("labels", ["x"] * 21),
        ("labels", [""]),
        ("labels", ["x" * 101]),
        ("labels", ["two\nlines"]),
        ("labels", ["nul\x00"]),
        ("labels", "nightly"),
        ("limits", {"rounds": 0}),
        ("limits", 3),
        ("result_schema", 3),
        ("result_schema", ["object"]),
        ("rules", [{"cel": ""}]),
        ("rules", [{"message": "no expression"}]),
        ("rules", [{"cel": "x" * 10_001}]),
        ("rules", [{"cel": "true"}] * 51),
        ("webhook_url", "x" * 2_001),
        ("surprise", 1),
    ],
)
def test_a_new_order_with_a_wrong_field_is_refused_and_the_field_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        NewOrder.model_validate({"prompt": "Hello", field: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


@pytest.mark.parametrize("prompt", ["x", "x" * PROMPT_CHARACTERS, "😀" * PROMPT_CHARACTERS, "\x00", " "])
def test_a_prompt_of_up_to_200_000_characters_is_taken_as_it_is(prompt: str) -> None:
    assert NewOrder(prompt=prompt).prompt == prompt


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("after", 0),
        ("after", 10**15 + 1),
        ("after", "5"),
        ("after", True),
        ("after", 1.5),
        ("after", None),
        ("prompt", ""),
        ("prompt", " \n\u3000"),
        ("prompt", "x" * (PROMPT_CHARACTERS + 1)),
        ("prompt", 7),
        ("surprise", 1),
    ],
)
def test_a_fork_with_a_wrong_field_is_refused_and_the_field_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        NewFork.model_validate({"after": 1, field: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


@pytest.mark.parametrize("prompt", [None, "x", "x" * PROMPT_CHARACTERS, "\x00", " x "])
def test_the_prompt_of_a_fork_is_taken_as_it_is_or_left_out(prompt: str | None) -> None:
    assert NewFork(after=1, prompt=prompt).prompt == prompt


@pytest.mark.parametrize("value", [5, True])
@pytest.mark.parametrize("field", ["record_id", "message", "reason", "mode", "remove_tools"])
def test_a_control_takes_numbers_for_nothing(field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        NewControl.model_validate({field: value})


@pytest.mark.parametrize("title", [5, True, None])
def test_a_session_takes_text_for_a_title(title: Any) -> None:
    with pytest.raises(ValidationError):
        NewSession.model_validate({"title": title})


def test_limits_are_read_from_words_where_people_write_them() -> None:
    assert Limits.model_validate_strings({"rounds": "5", "cost_usd": "0.5"}) == Limits(rounds=5, cost_usd=0.5)


def test_a_new_order_has_the_promised_defaults() -> None:
    order = NewOrder(prompt="Hello")
    assert (order.kind, order.agent, order.queue, order.priority) == ("chat", "master", "default", 5)
    assert order.when_busy is WhenBusy.ENQUEUE
    assert order.labels == () and order.limits is None


def test_a_control_and_a_session_have_bounds_too() -> None:
    with pytest.raises(ValidationError):
        NewControl(message="x" * 20_001)
    with pytest.raises(ValidationError):
        NewSession(title="x" * 201)


def test_usage_adds_up_and_an_unknown_price_makes_the_sum_unknown() -> None:
    one = Usage(input_tokens=1, cached_input_tokens=1, output_tokens=2, reasoning_tokens=1, model_calls=1, cost_usd=0.5)
    two = Usage(input_tokens=10, output_tokens=20, tool_calls=3, cost_usd=0.25)
    total = one.plus(two)
    assert total == Usage(
        input_tokens=11,
        cached_input_tokens=1,
        output_tokens=22,
        reasoning_tokens=1,
        model_calls=1,
        tool_calls=3,
        cost_usd=0.75,
    )
    assert total.total_tokens == 33
    assert one.plus(Usage(cost_usd=None)).cost_usd is None
    assert Usage(cost_usd=None).plus(one).cost_usd is None
    with pytest.raises(ValidationError):
        Usage(input_tokens=-1)
