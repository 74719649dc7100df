"""Prompts of the product may be reworded at will: the offline model does the same with any words in their place."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import Ask, AskHint, Listener, Reply
from drone.generation import generate
from drone.in_process import InProcessRunner
from drone.models.dialects.anthropic import Messages
from drone.models.dialects.chat import ChatCompletions
from drone.models.offline import OfflineModel
from drone.models.remote import ModelEndpoint, WireFormat
from drone.tools.catalog import Toolbox
from mcc.documents import Blueprint
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from tests.drone.generation.holding import Document

ENDPOINT = ModelEndpoint(name="test/m", model="m", base_url="http://127.0.0.1:1")
FORMS: tuple[WireFormat, ...] = (ChatCompletions(ENDPOINT), Messages(ENDPOINT))
OTHER = (
    "Sing a song.\n# Your part: a lesson\nPeople hold these values. They stay: props.title.\n- /x: a security review"
)


class Watched(OfflineModel):
    """Notes the calls of all its replies."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        reply = await super().ask(ask, listener)
        self.calls += [(call.name, call.arguments) for call in reply.tool_calls]
        return reply


class Reworded(Watched):
    """Is asked in other words: system prompts, messages, notices, refusals and descriptions of tools are replaced."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        other = replace(
            ask, system=OTHER, messages=[*map(reworded, ask.messages)], tools=tuple(map(redescribed, ask.tools))
        )
        return await super().ask(other, listener)


def reworded(message: Message) -> Message:
    match message:
        case UserMessage():
            return UserMessage(OTHER)
        case ToolResults(results=results):
            # What the gate of a node answers is JSON, and no sentence.
            refused = (one.is_error and not one.content.startswith("{") for one in results)
            changed = (replace(one, content=OTHER) if no else one for one, no in zip(results, refused, strict=True))
            return ToolResults(tuple(changed), (OTHER,))
        case AssistantMessage():
            return message


def redescribed(spec: ToolSpec) -> ToolSpec:
    changed: Any = without_words(spec.parameters)
    return ToolSpec(spec.name, OTHER, changed)


def without_words(schema: object) -> object:
    if isinstance(schema, list | tuple):
        return [without_words(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: OTHER if key == "description" and isinstance(value, str) else without_words(value)
        for key, value in schema.items()
    }


@pytest.fixture
def pond(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Pond\n\nPond counts the ducks of a lake.\n")
    (tmp_path / "pond").mkdir()
    (tmp_path / "pond" / "lake.py").write_text('"""The lake."""\n\n\nclass Lake:\n    ducks: list[str]\n')
    return tmp_path


@pytest.mark.parametrize(("blueprint", "topic"), [("course", "Tides"), ("catalogue", "tea"), ("design", None)])
async def test_a_generation_is_the_same_whatever_its_prompts_say(blueprint: str, topic: str | None, pond: Path) -> None:
    made: list[list[tuple[str, Any]]] = []
    for model in (Watched(), Reworded()):
        document = Document(Blueprint.load(blueprint), {"topic": topic} if topic else None)
        tools = Toolbox.found().tools(pond)
        report = await generate(document, model=model, tools=tools, concurrency=1)
        assert report.ok, report.error
        made.append(model.calls)
    assert made[0] == made[1] and len(made[0]) > 5


@pytest.mark.parametrize("agent", ["explore", "scout", "review", "security_analyst"])
@pytest.mark.parametrize("task", ["Explain this repository", "Review this code", "How are its tests run?"])
async def test_an_agent_does_the_same_whatever_its_prompts_say(agent: str, task: str, pond: Path) -> None:
    made: list[Any] = []
    for model in (Watched(), Reworded()):
        result = await InProcessRunner({"offline": model}, workspace=pond).run_isolated(agent, task)
        made.append((model.calls, result.text))
    assert made[0] == made[1] and made[0][0]


@pytest.mark.parametrize("form", FORMS, ids=["chat", "messages"])
def test_a_hint_changes_no_byte_of_what_a_provider_is_sent(form: WireFormat) -> None:
    hints = (None, AskHint("Something else", must_finish=True))
    bodies = {b"".join(form.body(Ask("Be brief.", (UserMessage("Hello"),), hint=hint), frozenset())) for hint in hints}
    assert len(bodies) == 1


async def test_a_hint_is_kept_in_no_journal() -> None:
    document = Document(Blueprint.load("course"), {"topic": "Tides"})
    report = await generate(document, model=OfflineModel())
    assert "AskHint" not in repr(report.journal.entries) and "NodeForm" not in repr(report.journal.entries)
