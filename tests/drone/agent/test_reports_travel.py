"""A child's report: accepted by its gate, shortened for the parent, complete for rules and record."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import Gate
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, WantedCall
from drone.agent.ports.report import Cause, Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import Delegation
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.artifacts import ArtifactTools
from drone.tools.frame.tool import Joined
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.order import Rule
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.transcript.messages import ToolResults

ORDER = "order-1"
EVIDENCE = "".join(f"line {number}: é🎉\n" for number in range(1_000))
FOUND: Mapping[str, Any] = {
    "status": "completed",
    "summary": "One bug.",
    "findings": [{"title": "A bug", "evidence": EVIDENCE}],
}
ASK = Line(calls=(call("subagent", agent_type="review", prompt="Review it."),))


def submit(result: Mapping[str, Any]) -> Line:
    return Line(calls=(WantedCall("submit_result", result),))


class Tree:
    """A root agent with one reviewer, each with its own gate; `master` writes the root's replies by number."""

    def __init__(
        self, master: Callable[[int, Ask], Said], child: Callable[[int], Said], gate: Gate | None = None
    ) -> None:
        def author(ask: Ask) -> Said:
            said = sum(isinstance(message, ToolResults) for message in ask.messages)
            return child(said) if ask.system.startswith("You review.") else master(said, ask)

        self.journal = MemoryJournal(ORDER)
        turn = self.turn = Turn.begun(self.journal, Budget(Limits()))
        model = ScriptedModel(author)
        reviewer = AgentRuntime(AgentDefinition(name="review", prompt="You review."), model=model, gate=ReportGate())
        delegation = Delegation(turn, {"review": "Reviews."}, lambda wanted: reviewer, depth=0)
        tools = Joined(delegation, ArtifactTools())
        self.agent = AgentRuntime(AgentDefinition(name="master"), model=model, tools=tools, gate=gate)

    async def run(self) -> Report:
        return await self.agent.run(Task("Go.", root_record_id(ORDER)), self.turn)

    def told(self, tool: str) -> list[str]:
        facts = [entry.data for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]
        return [unfenced(fact.content) for fact in facts if fact.name == tool]

    def child(self) -> ChatRecord:
        record = self.journal.fold.record()
        assert record is not None
        (child,) = record.subagent_history
        return child


async def test_the_parent_reads_a_shortened_report_whole_when_it_wants_to() -> None:
    def master(said: int, ask: Ask) -> Said:
        if said == 0:
            return ASK
        if said == 2:
            return "I read it all."
        results = ask.messages[2]
        assert isinstance(results, ToolResults)
        whole = json.loads(unfenced(results.results[0].content))["whole"]
        return Line(calls=(call("read_artifact", id=whole["artifact"], length=whole["characters"]),))

    tree = Tree(master, lambda said: submit(FOUND))
    assert (await tree.run()).text == "I read it all."
    (told,) = map(json.loads, tree.told("subagent"))
    assert len(told["findings"][0]["evidence"]) <= 2_000
    (read,) = tree.told("read_artifact")
    assert json.loads(read.partition("\n")[2])["findings"] == FOUND["findings"]


async def test_the_childs_record_has_the_whole_result() -> None:
    tree = Tree(lambda said, ask: "Done." if said else ASK, lambda said: submit(FOUND))
    await tree.run()
    assert (tree.child().result, tree.child().answer) == (FOUND, "One bug.")
    assert tree.child().status is RecordStatus.COMPLETED


async def test_the_rules_of_the_parent_see_what_its_children_really_brought() -> None:
    rule = Rule(
        cel='children.exists(c, c.agent == "review" && c.status == "completed" && size(c.result.findings) == 1)',
        message="Have it reviewed first.",
    )
    answer = {"status": "completed", "summary": "Reviewed."}

    def master(said: int, ask: Ask) -> Said:
        return ASK if said == 1 else submit(answer)

    tree = Tree(master, lambda said: submit(FOUND), ReportGate(rules=[rule]))
    assert (await tree.run()).completed
    refused, accepted = tree.told("submit_result")[0], tree.told("submit_result")[-1]
    assert "Have it reviewed first." in refused and accepted == "Accepted."


async def test_a_child_that_never_hands_in_what_is_asked_is_a_blocked_report_for_its_parent() -> None:
    tree = Tree(lambda said, ask: "Without it, then." if said else ASK, lambda said: submit({"status": f"good {said}"}))
    assert (await tree.run()).completed
    (told,) = map(json.loads, tree.told("subagent"))
    assert told["status"] == "blocked" and "refused 5 times" in told["summary"]
    assert tree.child().status is RecordStatus.FAILED


async def test_what_the_master_owes_and_never_brings_fails_its_turn() -> None:
    tree = Tree(lambda said, ask: submit({"status": f"good {said}"}), lambda said: "", ReportGate())
    report = await tree.run()
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.GATE)
