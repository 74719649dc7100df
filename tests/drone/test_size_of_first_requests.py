"""The size of the first request to a model, which every order pays for."""

import json
from pathlib import Path

import pytest

from drone.agent.ports.model import Ask
from drone.definitions import Definitions
from drone.models.scripted import Said
from mcc.transcript.messages import UserMessage
from tests.parity.world import World

BYTES_OF_A_TOKEN = 4


def tokens(ask: Ask, prompt: str) -> int:
    """UTF-8 bytes of system prompt, tools and first message divided by 4, without the person's prompt."""
    tools = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in ask.tools]
    [first] = [message.text for message in ask.messages if isinstance(message, UserMessage)]
    sent = ask.system + json.dumps(tools, ensure_ascii=False, separators=(",", ":")) + first.removesuffix(prompt)
    return len(sent.encode()) // BYTES_OF_A_TOKEN


MOST = {
    # With `edit_file`, which costs 100 tokens a request: hiring somebody for a typo cost 8,000. That several questions
    # can be asked at once costs 170: one after the other, each costs a person's attention.
    "master": 3_850,
    **dict.fromkeys(("explore", "general", "scout", "review", "security_analyst", "verify"), 2_000),
}


def test_every_shipped_agent_has_its_bound() -> None:
    assert set(Definitions.load(None).names()) == set(MOST)


@pytest.mark.parametrize(("agent", "most"), MOST.items())
async def test_a_first_request_is_short(tmp_path: Path, agent: str, most: int) -> None:
    asks: list[Ask] = []

    def play(task: str, replies: int, ask: Ask) -> Said:
        asks.append(ask)
        return "Done."

    await World(tmp_path, play).run("go", agent=agent)
    assert tokens(asks[0], "go") <= most


def test_no_shipped_prompt_says_how_much_may_be_spent() -> None:
    found = Definitions.load(None).agents
    assert {name for name, definition in found.items() if definition.limits != type(definition.limits)()} == set()
