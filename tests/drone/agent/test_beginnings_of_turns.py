"""A turn of a session sends what the turn before sent, while nothing has changed; what changed is told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.parts import Hired
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.ports.prefix import PREFIX_CHANGED
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool_search import Searchable
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.contracts.turn_context import TurnBefore
from mcc.transcript.environment import Environment
from mcc.transcript.messages import ToolResults, ToolSpec
from mcc.transcript.opening import SessionOpening
from mcc.transcript.own_messages import OwnMessages, TurnEnd


class Remembering(ScriptedModel):
    cache_seconds: int | None = None
    """How long its provider keeps the beginning of a request."""


class Tools:
    """Tools of these names, which all answer with theirs. `deferred`: the last one has to be searched for."""

    def __init__(self, *names: str, deferred: bool = False) -> None:
        self._names, self._deferred = names, deferred

    def specs(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(name, f"Does {name}.", {"type": "object"}, deferred=self._deferred and name == self._names[-1])
            for name in self._names
        ]

    async def call(self, call: StartedCall) -> Output:
        return Output(call.name) if call.name in self._names else Output(f"no tool {call.name}", is_error=True)


class Conversation:
    """Turns of one session, each with an agent of its own. `asked`: the requests of the last one."""

    def __init__(self) -> None:
        self.opening = SessionOpening(session_id="a-session")
        self.texts: dict[str, str] = {}
        self.asked: list[Ask] = []
        self.journal = MemoryJournal("")

    async def turn(
        self,
        *says: Said,
        tools: Tools | Searchable | None = None,
        prompt: str = "You help.",
        agent: str = "master",
        model: str = "",
        environment: Environment | None = None,
        cache_seconds: int | None = None,
    ) -> None:
        order_id = fresh_id()
        scripted = Remembering([*says, "Done."], name=model) if model else Remembering([*says, "Done."])
        scripted.cache_seconds = cache_seconds
        self.journal = MemoryJournal(order_id)
        self.journal.texts.update(self.texts)
        runtime = AgentRuntime(
            AgentDefinition(name=agent, prompt=prompt),
            model=scripted,
            tools=tools or Tools("look"),
            hired=Hired(session=self.opening, environment=environment or Environment(), shows_fences=False),
        )
        task = Task("Go on.", root_record_id(order_id))
        report = await runtime.run(task, runtime.turn(self.journal))
        assert report.completed, report.error
        self.asked = [*scripted.asks]
        self._end(order_id)

    def _end(self, order_id: str) -> None:
        own = OwnMessages()
        for entry in self.journal.entries:
            own.add(entry)
        assert own.started is not None
        self.texts.update(self.journal.texts)
        end = TurnEnd(order_id, 1, "Go on.", OrderStatus.SUCCEEDED, "Done.")
        shown = (*self.opening.shown, *own.at_end(end, "full"))
        before = TurnBefore(
            setup_digest=own.started.setup_digest,
            setup_key=own.started.setup_key,
            found=tuple(own.found),
            last=own.last,
        )
        self.opening = replace(self.opening, shown=shown, before=before)

    @property
    def changes(self) -> list[str | None]:
        facts = (entry.data for entry in self.journal.entries)
        return [fact.why for fact in facts if isinstance(fact, AgentStep) and fact.name == PREFIX_CHANGED]

    @property
    def offered(self) -> list[str]:
        return [spec.name for spec in self.asked[-1].tools]

    @property
    def environment(self) -> str:
        return next(entry.data.environment for entry in self.journal.entries if isinstance(entry.data, AgentStarted))


async def test_a_drone_with_other_tools_shows_those_of_the_turn_before() -> None:
    talk = Conversation()
    await talk.turn(tools=Tools("look", "dig"))
    await talk.turn(Line(calls=(call("dig"),)), tools=Tools("look", "fly"))
    assert talk.offered == ["look", "dig"] and talk.changes == []
    results = talk.asked[-1].messages[-1]
    assert isinstance(results, ToolResults) and results.results[0].is_error
    assert "no tool dig" in results.results[0].content
    await talk.turn(tools=Tools("look", "dig", "fly"))
    assert talk.offered == ["look", "dig"]


async def test_another_definition_makes_the_set_up_anew_and_that_is_told() -> None:
    talk = Conversation()
    await talk.turn(tools=Tools("look"))
    await talk.turn(prompt="You help much.", tools=Tools("look", "fly"))
    assert talk.asked[0].system.startswith("You help much.") and talk.offered == ["look", "fly"]
    assert talk.changes == ["agent"]
    await talk.turn(agent="other", prompt="You help much.", tools=Tools("look", "fly"))
    assert talk.changes == [], "it sends the same bytes"
    await talk.turn(agent="other", prompt="You look.", model="scripted/second", tools=Tools("look", "fly"))
    assert talk.changes == ["model"]


@pytest.mark.parametrize(("seconds", "offered", "told"), [(60, ["look", "fly"], ["cold"]), (None, ["look"], [])])
async def test_what_the_provider_keeps_no_more_is_made_anew(
    seconds: int | None, offered: list[str], told: list[str]
) -> None:
    talk = Conversation()
    await talk.turn(tools=Tools("look"))
    before = talk.opening.before
    assert before is not None and before.last is not None
    last = before.last.model_copy(update={"at": now() - timedelta(seconds=61)})
    talk.opening = replace(talk.opening, before=before.model_copy(update={"last": last}))
    await talk.turn(tools=Tools("look", "fly"), cache_seconds=seconds)
    assert talk.offered == offered and talk.changes == told


async def test_a_tool_that_was_found_stays_with_the_session_in_its_place() -> None:
    talk = Conversation()
    tools = Searchable(Tools("look", "dig", deferred=True))
    await talk.turn(Line(calls=(call("tool_search", query="dig"),)), tools=tools)
    assert talk.offered == ["look", "tool_search", "dig"] and talk.changes == ["tool_search"]
    for _ in range(2):
        await talk.turn(Line(calls=(call("dig"),)), tools=tools)
        assert talk.offered == ["look", "tool_search", "dig"] and talk.changes == []
        results = talk.asked[-1].messages[-1]
        assert isinstance(results, ToolResults) and unfenced(results.results[0].content) == "dig"
    await talk.turn(prompt="You dig.", tools=tools)
    assert talk.offered == ["look", "tool_search", "dig"] and talk.changes == ["agent"]


async def test_of_the_environment_only_changed_parts_are_told_again() -> None:
    talk = Conversation()
    monday = Environment({"limits": "5 rounds.", "date": "Today is Monday.", "git": "branch main"})
    await talk.turn(environment=monday)
    assert talk.environment == monday.text
    await talk.turn(environment=monday)
    assert talk.environment == ""
    tuesday = monday.having(date="Today is Tuesday.")
    await talk.turn(environment=tuesday)
    assert talk.environment == "# Environment (changed)\n\nToday is Tuesday."
    await talk.turn(environment=tuesday.having(git="branch other"))
    assert talk.environment.startswith("# Environment (changed)\n\nWhat a look at the workspace found:\n<untrusted ")
    assert "Tuesday" not in talk.environment and talk.changes == []


async def test_the_key_for_caches_is_that_of_the_session_and_its_agent() -> None:
    talk = Conversation()
    await talk.turn()
    first = talk.asked[0].cache_key
    await talk.turn()
    assert first == talk.asked[0].cache_key == "a-session:master"
    await talk.turn(agent="m" * 60)
    assert len(talk.asked[0].cache_key) == 64 and "m" * 60 not in talk.asked[0].cache_key
