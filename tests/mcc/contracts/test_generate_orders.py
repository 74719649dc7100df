"""Generate orders: required, forbidden and default fields."""

from typing import Any

import pytest
from pydantic import ValidationError

from mcc.contracts.generation import Generation, Quorum
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.shape import to_json
from mcc.rules.mistakes import mistakes

HERE = "01900000-0000-7000-8000-000000000003"
ELSEWHERE = "01900000-0000-7000-8000-000000000004"


def asked(**fields: Any) -> NewOrder:
    return NewOrder.model_validate({"kind": "generate", **fields})


def test_a_blueprint_alone_is_enough() -> None:
    order = asked(blueprint="course")
    assert (order.prompt, order.blueprint, order.generation) == ("", "course", None)


def test_a_prompt_is_needed_in_a_chat() -> None:
    with pytest.raises(ValidationError) as refused:
        NewOrder.model_validate({})
    [mistake] = mistakes(refused.value.errors())
    assert mistake.sentence == "prompt: Nothing is given here, and it is needed; add it"


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("blueprint", {}),
        ("blueprint", {"blueprint": "course", "document_id": HERE}),
        ("blueprint", {"blueprint": "course:12"}),
        ("blueprint", {"blueprint": "../course.yaml"}),
        ("document_id", {"document_id": HERE, "session_id": ELSEWHERE}),
        ("document_id", {"blueprint": "course", "session_id": ELSEWHERE}),
        ("generation.concurrency", {"blueprint": "course", "generation": {"concurrency": 201}}),
        ("generation.concurrency", {"blueprint": "course", "generation": {"concurrency": 0}}),
        ("generation.on_failure", {"blueprint": "course", "generation": {"on_failure": {"quorum": 0}}}),
        ("limits.rounds", {"blueprint": "course", "limits": {"rounds": 0}}),
        ("limits", {"blueprint": "course", "limits": 3}),
        ("blueprint", {"kind": "chat", "prompt": "x", "blueprint": "course"}),
        ("generation", {"kind": "chat", "prompt": "x", "generation": {}}),
    ],
)
def test_what_does_not_belong_together_is_refused_with_its_place(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        asked(**said)
    assert field in [mistake.field for mistake in mistakes(refused.value.errors())]


def test_its_session_may_be_named_where_it_is_that_of_the_document() -> None:
    assert asked(document_id=HERE, session_id=HERE).session_id == HERE


def test_a_chat_may_work_on_a_document_in_a_session_of_its_own() -> None:
    order = NewOrder(prompt="Shorten it.", document_id=HERE, session_id=ELSEWHERE)
    assert order.document_id == HERE
    assert order.limits is None


def test_its_limits_are_those_of_many_agents() -> None:
    expected = Limits(
        subagent_rounds=50,
        concurrency=8,
        tool_calls=1_000_000,
        output_tokens=20_000_000,
        spawns=20_000,
        wall_seconds=86_400,
    )
    assert asked(blueprint="course").limits == expected
    assert asked(blueprint="course", limits={}).limits == expected


@pytest.mark.parametrize("generation", [{"concurrency": 40}, Generation(concurrency=40)])
def test_so_many_agents_work_at_a_time_as_nodes_are_wanted(generation: Any) -> None:
    limits = asked(blueprint="course", generation=generation, limits={"spawns": 7}).limits
    assert limits is not None
    assert (limits.concurrency, limits.spawns, limits.tool_calls) == (40, 7, 1_000_000)


@pytest.mark.parametrize("limits", [Limits(concurrency=3), {"concurrency": 3}])
def test_a_limit_that_is_said_counts(limits: Any) -> None:
    found = asked(blueprint="course", limits=limits).limits
    assert found is not None
    assert (found.concurrency, found.spawns) == (3, 20_000)


def test_what_is_read_back_is_what_was_asked() -> None:
    order = asked(
        document_id=HERE,
        prompt="Short sentences.",
        limits={"spawns": 50},
        generation={"nodes": ["/lesson-2"], "on_failure": {"quorum": 0.9}, "metadata": {"topic": "Light"}},
    )
    assert NewOrder.model_validate_json(to_json(order)) == order
    assert order.generation is not None
    assert order.generation.on_failure == Quorum(quorum=0.9)


def test_a_kept_order_names_its_blueprint_and_the_document_that_was_made() -> None:
    kept = WorkOrder.model_validate(
        {
            "kind": "generate",
            "blueprint": "course",
            "document_id": HERE,
            "session_id": HERE,
            "id": ELSEWHERE,
            "session_seq": 1,
            "status": "queued",
            "created_at": "2026-01-31T12:00:00Z",
        }
    )
    assert (kept.blueprint, kept.document_id) == ("course", HERE)
