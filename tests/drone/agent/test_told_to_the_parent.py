"""What a parent sees of its child: bounded, in one shape, with the handle of the complete report."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.conversations import REPORT_CHARACTERS, TEXT_CHARACTERS, as_report
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import Cause, Report
from drone.agent.subagents.children import report_output
from drone.agent.turns.toolset import Output
from mcc.contracts.journal import Outcome
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage

RECORD = "record-7"
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(categories=None), max_size=3_000),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=20), inner, max_size=10),
    max_leaves=30,
)


class Bench:
    def __init__(self) -> None:
        self.journal = MemoryJournal("order-1")
        self.artifacts = Artifacts(self.journal)

    async def told(self, report: Report) -> Output:
        return await report_output(report, self.artifacts)

    async def whole(self, said: Mapping[str, Any]) -> str:
        text = await self.artifacts.read(said["whole"]["artifact"])
        assert text is not None and len(text) == said["whole"]["characters"]
        return text


def ended(status: AgentEnd = RecordStatus.COMPLETED, text: str = "", **more: Any) -> Report:
    return Report(status, text, RECORD, agent="review", title="Look at it", rounds=3, model="m/1", **more)


def reported(**result: Any) -> Report:
    claimed = {"status": RecordStatus.COMPLETED, "summary": "Two bugs.", **result}
    return ended(claimed["status"], "Two bugs.", result=claimed, usage=Usage(input_tokens=9))


async def test_a_report_is_told_in_its_shape_with_what_the_runtime_knows() -> None:
    finding = {"title": "Off by one", "evidence": "line 3"}
    output = await Bench().told(reported(findings=[finding], steps=["read a.py"]))
    said = json.loads(output.content)
    assert list(said) == [
        *("status", "summary", "role", "display_name", "steps", "findings", "artifacts"),
        *("recommended_next_actions", "meta", "record_id"),
    ]
    assert (said["status"], said["summary"], said["role"], said["display_name"]) == (
        *("completed", "Two bugs.", "review", "Look at it"),
    )
    assert (said["steps"], said["findings"], said["artifacts"]) == (["read a.py"], [finding], [])
    assert said["meta"]["rounds"] == 3 and said["meta"]["effective_model"] == "m/1"
    assert said["meta"]["usage"]["input_tokens"] == 9
    assert said["record_id"] == RECORD
    assert (output.is_error, output.outcome, output.artifact) == (False, Outcome.OK, None)


async def test_the_gate_of_the_parent_gets_the_whole_report_and_the_journal_the_childs_record() -> None:
    report = reported(findings=[{"title": "x", "evidence": "e" * 90_000}])
    output = await Bench().told(report)
    assert output.children == (report,)
    assert output.subagent_ids == (RECORD,)


async def test_a_blocked_report_is_no_error_of_the_call() -> None:
    output = await Bench().told(reported(status="blocked"))
    assert not output.is_error and json.loads(output.content)["status"] == "blocked"


async def test_what_is_cut_from_a_report_is_kept_whole() -> None:
    bench = Bench()
    findings = [{"title": f"Number {number}", "evidence": "👩‍👩‍👧é" * 2_000} for number in range(30)]
    artifacts = [{"title": "A file", "content": "x" * 9_000} for _ in range(12)]
    report = reported(findings=findings, artifacts=artifacts)
    output = await bench.told(report)
    said = json.loads(output.content)
    assert len(said["findings"]) == 20 and len(said["artifacts"]) == 10
    assert max(len(finding["evidence"]) for finding in said["findings"]) <= 2_000
    assert max(len(artifact["content"]) for artifact in said["artifacts"]) <= 4_000
    whole = json.loads(await bench.whole(said))
    assert (whole["findings"], whole["artifacts"]) == (findings, artifacts)
    assert output.artifact is not None and output.artifact.startswith(said["whole"]["artifact"])


async def test_a_result_of_its_own_shape_is_told_as_it_is() -> None:
    report = ended(text="42", result={"answer": 42, "status": "fine"})
    said = json.loads((await Bench().told(report)).content)
    assert said["result"] == {"answer": 42, "status": "fine"}
    assert list(said) == ["status", "result", "meta", "record_id"]


async def test_a_long_result_of_its_own_shape_keeps_its_shape_with_shorter_texts() -> None:
    bench = Bench()
    result = {"page": "x" * 40_000, "numbers": [1, 2, 3]}
    said = json.loads((await bench.told(ended(result=result))).content)
    assert said["result"]["numbers"] == [1, 2, 3]
    assert len(said["result"]["page"]) == 2_000 and said["result"]["page"].endswith("characters cut]")
    assert json.loads(await bench.whole(said))["result"] == result


async def test_a_result_of_its_own_shape_with_too_much_in_it_is_told_from_its_beginning() -> None:
    bench = Bench()
    said = json.loads((await bench.told(ended(result=list(range(10_000))))).content)
    assert said["result"].startswith("[0,1,2,3,") and len(said["result"]) == TEXT_CHARACTERS
    assert json.loads(await bench.whole(said))["result"] == list(range(10_000))


async def test_a_text_child_is_told_with_its_record_in_the_last_line() -> None:
    output = await Bench().told(ended(text="It is in a.py."))
    assert output.content == f"It is in a.py.\n\nrecord_id: {RECORD}"
    assert output.artifact is None


async def test_a_long_text_is_cut_and_kept() -> None:
    bench = Bench()
    text = "".join(f"{number}," for number in range(9_000))
    output = await bench.told(ended(text=text))
    first, _, rest = output.content.partition("\nThe whole text is the artifact ")
    assert len(first) == TEXT_CHARACTERS and text.startswith(first.partition("… [")[0])
    handle, _, last = rest.partition(".")
    assert await bench.artifacts.read(handle) == text
    assert last == f"\n\nrecord_id: {RECORD}"


@pytest.mark.parametrize(
    ("status", "cause", "word", "outcome"),
    [
        (RecordStatus.LIMIT_REACHED, Cause.LIMIT, "blocked", Outcome.ERROR),
        (RecordStatus.BLOCKED, Cause.NO_PROGRESS, "blocked", Outcome.ERROR),
        (RecordStatus.CANCELLED, Cause.CANCELLED, "blocked", Outcome.CANCELLED),
        (RecordStatus.FAILED, Cause.GATE, "blocked", Outcome.ERROR),
        (RecordStatus.FAILED, Cause.MODEL, "blocked", Outcome.ERROR),
        (RecordStatus.FAILED, None, "blocked", Outcome.ERROR),
    ],
)
async def test_every_other_ending_has_the_same_shape_and_says_why_and_what_there_was(
    status: AgentEnd, cause: Cause | None, word: str, outcome: Outcome
) -> None:
    report = ended(status, "Half of it.", cause=cause, error="something came in between")
    output = await Bench().told(report)
    said = json.loads(output.content)
    assert (output.is_error, output.outcome, output.children, output.subagent_ids) == (
        *(True, outcome, (report,), (RECORD,)),
    )
    assert said["status"] == word
    assert "something came in between" in said["summary"] and "Half of it." in said["summary"]
    assert said["findings"] == [] and said["record_id"] == RECORD


async def test_a_child_that_came_to_nothing_says_so() -> None:
    said = json.loads((await Bench().told(ended(RecordStatus.FAILED, error="the model is away"))).content)
    assert said["summary"].endswith("the model is away. It had nothing to tell yet.")


async def test_an_error_that_ends_with_a_full_stop_is_told_with_one() -> None:
    said = json.loads((await Bench().told(ended(RecordStatus.FAILED, error="Refused (401).."))).content)
    assert said["summary"] == "The agent stopped before it was done: Refused (401). It had nothing to tell yet."


async def test_an_agent_that_says_itself_that_it_failed_has_failed() -> None:
    assert json.loads((await Bench().told(reported(status="failed"))).content)["status"] == "failed"


async def test_one_of_several_children_has_the_same_shape_also_when_it_only_wrote_a_text() -> None:
    said, digest = await as_report(ended(text="Found."), Bench().artifacts)
    assert (said["status"], said["summary"], said["record_id"], digest) == ("completed", "Found.", RECORD, None)


@given(result=ANY_JSON.filter(lambda result: result is not None))
async def test_whatever_a_child_hands_in_its_parent_is_told_a_bounded_part_and_the_whole_is_kept(result: Any) -> None:
    bench = Bench()
    said = json.loads((await bench.told(ended(result=result))).content)
    told_of_it = said["result"]
    assert len(told_of_it if isinstance(told_of_it, str) else to_json(told_of_it).decode()) <= TEXT_CHARACTERS
    whole = json.loads(await bench.whole(said))["result"] if "whole" in said else told_of_it
    assert whole == json.loads(json.dumps(result))


async def test_a_report_that_is_too_long_within_all_caps_is_told_without_its_lists_and_kept() -> None:
    bench = Bench()
    findings = [{"title": "x", "evidence": "\x00" * 2_000} for _ in range(20)]
    output = await bench.told(reported(findings=findings, summary="\x00" * 20_000))
    said = json.loads(output.content)
    assert len(output.content) <= REPORT_CHARACTERS and len(said["summary"]) <= TEXT_CHARACTERS
    assert said["findings"] == []
    assert json.loads(await bench.whole(said))["findings"] == findings


async def test_a_result_with_keys_of_its_own_loses_none_of_them() -> None:
    result = {"status": "completed", "summary": "Done.", "role": "of my own", "verdict": "good"}
    assert json.loads((await Bench().told(ended(result=result))).content)["result"] == result
