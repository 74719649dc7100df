"""The progress of a call reaches viewers in single lines, at a limited rate, without secrets."""

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.turns.toolset import StartedCall
from drone.mcp_servers.toolset import REPORT_SECONDS, ProgressReporter
from drone.models.scripted import ScriptedModel
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id


def test_viewers_are_told_at_most_four_lines_a_second() -> None:
    heard: list[tuple[int, str, str | None]] = []

    def hear(origin: Origin, kind: str, said: str) -> None:
        heard.append((0, f"{kind} {said}", origin.record_id))

    journal = MemoryJournal(fresh_id(), hear=hear)
    agent = AgentRuntime(AgentDefinition(name="a", description="d", prompt="p"), model=ScriptedModel([]))
    call, at = StartedCall("c", "s__look", {}, Origin(record_id="r"), agent.turn(journal)), [0.0]
    report = ProgressReporter(call, lambda: at[0])
    for message in ("one\u200b", "too soon", "two\nlines"):
        report(message)
        at[0] += REPORT_SECONDS * 0.6
    assert [one[1] for one in heard] == ["tool.progress one\n", "tool.progress two lines\n"]
    ProgressReporter(StartedCall("c", "s__look", {}, Origin()))("nobody is there")
