"""Agents get a description of their surroundings once, and the same one from a drone that takes over."""

from pathlib import Path

from drone.agent.ports.model import Ask
from drone.models.scripted import Said, call
from mcc.transcript.messages import UserMessage
from mcc.transcript.transcript import request_in
from tests.parity.world import World, calls


def first_words(ask: Ask) -> str:
    return next(message.text for message in ask.messages if isinstance(message, UserMessage))


async def test_every_agent_is_told_the_surroundings_before_its_task(tmp_path: Path) -> None:
    asks: list[Ask] = []

    def play(task: str, replies: int, ask: Ask) -> Said:
        asks.append(ask)
        delegate = calls(call("subagent", agent_type="explore", prompt="Look."))
        return delegate if task == "go" and not replies else "Done."

    world = World(tmp_path, play, files={"AGENTS.md": "Use tabs."})
    await world.run("go", "rounds=7")
    assert [request_in(first_words(ask)) for ask in asks] == ["go", "Look.", "go"]
    assert "Your limits: 7 rounds" in first_words(asks[0]) and "Your limits: 24 rounds" in first_words(asks[1])
    assert all("Use tabs." in first_words(ask) and "Use tabs." not in ask.system for ask in asks)
    assert world.record.prompt == "go", "people see their own words"
