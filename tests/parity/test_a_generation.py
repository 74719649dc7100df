"""Section A: a deterministic orchestrator with gated subagents. One test for each thing such systems do."""

import json
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.generation import SubagentError, generate, run_subagent
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, GateChecked, ToolFinished
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import ToolResults, UserMessage
from mcc.transcript.opening import SessionOpening
from mcc.transcript.own_messages import TurnEnd, prompt_and_answer
from tests.drone.generation.holding import Document
from tests.drone.generation.test_orders import Service
from tests.drone.generation.world import Node, course, diligent, played


class Counter:
    """A state that tools change and a validation looks at."""

    def __init__(self, wanted: int) -> None:
        self.value = 0
        self.wanted = wanted

    def tools(self) -> list[Any]:
        @drone.tool(untrusted=False)
        def add(by: int) -> str:
            """Add to the counter."""
            self.value += by
            return f"It is {self.value}."

        return [add]

    def wrong(self) -> list[dict[str, str | None]]:
        if self.value == self.wanted:
            return []
        said = f"The counter is {self.value}, and not {self.wanted}."
        return [{"node": "/", "field": "props.counter", "rule": "props.counter.rules[0]", "message": said}]


def answers(model: ScriptedModel) -> list[dict[str, Any]]:
    """What `done` and `validate` told the model."""
    results = [
        one for message in model.asks[-1].messages if isinstance(message, ToolResults) for one in message.results
    ]
    return [json.loads(one.content) for one in results if one.name in ("done", "validate")]


async def test_run_subagent_takes_model_preamble_tools_validation_and_task_and_answers_text() -> None:
    counter = Counter(wanted=2)
    model = ScriptedModel([Line(calls=(call("add", by=2),)), Line(calls=(call("done", summary="It is two."),))])
    heard: list[str] = []
    text = await run_subagent(
        model,
        "You count.",
        counter.tools(),
        counter.wrong,
        "Count to two.",
        hear=lambda origin, kind, text: heard.append(text),
    )
    assert text == "It is two."
    assert model.asks[0].system.startswith("You count.")
    assert [spec.name for spec in model.asks[0].tools] == ["add", "done", "validate"]


async def test_done_that_fails_is_a_tool_result_and_the_same_conversation_goes_on() -> None:
    counter = Counter(wanted=2)
    model = ScriptedModel(
        [
            Line(calls=(call("add", by=1), call("done"))),
            Line(calls=(call("add", by=1), call("done", summary="Two."))),
            "Never said.",
        ]
    )
    assert await run_subagent(model, "You count.", counter.tools(), counter.wrong, "Count to two.") == "Two."
    (first,) = answers(model)
    assert first == {
        "ok": False,
        "errors": [
            {
                "node": "/",
                "field": "props.counter",
                "rule": "props.counter.rules[0]",
                "message": "The counter is 1, and not 2.",
            }
        ],
        "message": "1 rule does not hold. Mend them and call done again.",
    }


async def test_validate_may_be_called_at_any_time_and_never_stops() -> None:
    counter = Counter(wanted=1)
    model = ScriptedModel(
        [
            Line(calls=(call("validate"),)),
            Line(calls=(call("add", by=1), call("validate"))),
            Line(calls=(call("done", summary="One."),)),
        ]
    )
    assert await run_subagent(model, "You count.", counter.tools(), counter.wrong, "Count to one.") == "One."
    assert [(one["ok"], len(one["errors"])) for one in answers(model)] == [(False, 1), (True, 0)]


async def test_an_agent_that_does_not_come_to_its_end_within_its_turns_is_an_error() -> None:
    counter = Counter(wanted=1_000)
    model = ScriptedModel(lambda ask: Line(calls=(call("add", by=1),)))
    with pytest.raises(SubagentError, match=r"the limit rounds \(7\)") as raised:
        await run_subagent(model, "You count.", counter.tools(), counter.wrong, "Count.", max_turns=7)
    assert raised.value.report.rounds == 7 + 1, "the last reply may hand in and do nothing else"


async def test_failed_attempts_are_counted_against_a_limit() -> None:
    counter = Counter(wanted=1)
    model = ScriptedModel(lambda ask: Line(calls=(call("done"),)))
    with pytest.raises(SubagentError, match="refused 5 times"):
        await run_subagent(model, "You count.", counter.tools(), counter.wrong, "Count to one.")
    assert len(model.asks) == 5


async def test_fifty_turns_are_the_default() -> None:
    model = ScriptedModel(lambda ask: Line(calls=(call("add", by=1),)))
    with pytest.raises(SubagentError, match=r"the limit rounds \(50\)"):
        await run_subagent(model, "You count.", Counter(0).tools(), lambda: ["never"], "Count.")


async def test_each_check_is_an_entry_of_the_journal_and_attempts_are_numbered() -> None:
    def play(node: Node) -> Said:
        if node.component != "lesson":
            return diligent(node)
        wrong = Line(calls=(call("set_value", values={"minutes": 42}), call("validate"), call("done")))
        return diligent(node) if node.replies else wrong

    report = await generate(Document(course()), model=played(play), concurrency=1)
    checks = [one for one in report.journal.entries if isinstance(one.data, GateChecked)]
    of_one = [one.data for one in checks if one.agent == "course/lesson"][:3]
    assert [(one.tool, one.attempt, one.ok, one.check_only) for one in of_one] == [  # type: ignore[attr-defined]
        ("validate", 0, False, True),
        ("done", 1, False, False),
        ("done", 2, True, False),
    ]


async def test_validation_reads_the_live_state_as_committed_whoever_changed_it() -> None:
    document = Document(course())

    def play(node: Node) -> Said:
        if node.path == "/lesson-1" and node.replies == 1:
            # Its own value was right; a person changes it before it says that it is done.
            document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 41}})
            return Line(calls=(call("done"),))
        if node.path == "/lesson-1" and node.replies == 2:
            document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 40}})
            return Line(calls=(call("done", summary="Now it holds."),))
        if node.path == "/lesson-1":
            said = diligent(node)
            assert isinstance(said, Line)
            return Line(calls=said.calls[:-1])
        return diligent(node)

    report = await generate(document, model=played(play))
    assert report.ok, report.error
    told = [
        one.data for one in report.journal.entries if isinstance(one.data, ToolFinished) and one.data.name == "done"
    ]
    refused = [json.loads(one.content) for one in told if one.is_error]
    assert [error["rule"] for error in refused[0]["errors"]] == ["props.minutes.rules[0]"]
    assert document.node("/lesson-1").props["minutes"] == 40


async def test_per_node_metadata_then_its_own_values_then_children_side_by_side() -> None:
    order: list[str] = []
    together = 0

    async def play(node: Node) -> Said:
        nonlocal together
        order.append(f"{'metadata of ' if node.is_metadata else ''}{node.path}")
        at_once = len([path for path in order if path.count("/") == 1 and path != "/"])
        together = max(together, at_once)
        return diligent(node)

    report = await generate(Document(course()), model=played(play))  # type: ignore[arg-type]
    assert report.ok
    assert order[:2] == ["metadata of /", "/"]
    assert set(order[2:4]) == {"/lesson-1", "/lesson-2"}
    assert all(order.index(path.rpartition("/")[0]) < order.index(path) for path in order if path.count("/") == 2)


async def test_nothing_pending_is_skipped_and_recursion_goes_on() -> None:
    document = Document(course())
    await generate(document, model=played())
    document.dispatch({"command": "add_child", "node": "/lesson-2", "component": "activity"})
    report = await generate(document, model=played())
    nodes = [one.data.node for one in report.journal.entries if isinstance(one.data, AgentStarted)]
    assert nodes == [None, "/lesson-2/activity-2"]
    assert report.ok


async def test_generation_chat_and_person_go_through_one_dispatch_into_one_history(tmp_path: Path) -> None:
    document = Document(course(), {"topic": "Light"})
    await generate(document, model=played())
    document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 30}})
    told = ScriptedModel([Line(calls=(call("set_value", node="/lesson-1", values={"minutes": 7}),)), "Done."])
    await Service(tmp_path, document, told).run(kind="chat", prompt="Make it seven.")
    steps = [step for step in document.history if step.node == "/lesson-1" and step.command == "set_value"]
    assert [step.by for step in steps] == ["agent", "person", "chat"]
    assert [step.version for step in steps] == sorted(step.version for step in steps)
    verdicts = {one.rule: one.ok for one in document.node("/lesson-1").verdicts}
    assert verdicts["props.minutes.rules[0]"] is False, "each of them is judged in the same way"


async def test_two_flows_a_chat_has_its_history_and_a_generation_a_prompt_for_its_task(tmp_path: Path) -> None:
    document = Document(course(), {"topic": "Light"})
    model = played()
    await generate(document, model=model)
    assert all(len(ask.messages) == 1 for ask in model.asks), "nothing but the task"
    heard = ScriptedModel(["You said hello."])
    service = Service(tmp_path, document, heard)
    earlier = prompt_and_answer(TurnEnd(fresh_id(), 1, "Hello!", OrderStatus.SUCCEEDED, "Hi."), (), 9)
    await service.run(kind="chat", prompt="What did I say?", session=SessionOpening(earlier))
    assert next(message.text for message in heard.asks[0].messages if isinstance(message, UserMessage)) == "Hello!"


async def test_flat_over_deep_agents_of_nodes_call_no_agents() -> None:
    model = played()
    report = await generate(Document(course()), model=model)
    record = report.journal.fold.record()
    assert record is not None
    assert all(child.depth == 1 and not child.subagent_history for child in record.subagent_history)
    assert not {spec.name for ask in model.asks for spec in ask.tools} & {"subagent", "subagents_run", "subagent_send"}
