"""Each request of a session begins with the bytes of the one before, whichever drone sends it; what breaks that is
told."""

import itertools
import json
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drone.access import toolbox_of
from drone.agent.ports.prefix import PREFIX_CHANGED
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from drone.tools.frame.own import NO_OWN
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewFork, WorkOrder
from mcc.store.store import Store
from mcc.testing import temporary_store
from tests.drone.worker.bench_of_orders import Bench
from tests.fake_provider.anthropic_form import MessagesForm
from tests.fake_provider.behaviours import Behaviour
from tests.fake_provider.chat_form import ChatForm
from tests.fake_provider.play import Call, Heard, Say
from tests.fake_provider.responses_form import ResponsesForm
from tests.fake_provider.server import KEY, FakeProvider, configuration, served

WIRES = [
    Behaviour("openai", "chat", ChatForm(), "openai", api="chat"),
    Behaviour("responses", "responses", ResponsesForm(), "openai", "gpt-5.6", "responses"),
    Behaviour("anthropic", "messages", MessagesForm(), "anthropic", "claude-sonnet-5"),
]


class Place:
    """A workspace, a store and a provider that drones share. `says`: what the provider says next, else a few words."""

    def __init__(self, folder: Path, provider: FakeProvider, config: ModelConfig) -> None:
        (folder / "README.md").write_text("# A garden\n" + "Roses.\n" * 20)
        self.folder = folder
        self.provider = provider
        self.store: Store = temporary_store()
        self.says: list[Say | Callable[[], Say]] = []
        provider.play = self._play
        self._settings = Settings(models={"fake": config}, workspace_roots=(folder,), keys={KEY: "sk-fake-0123"})
        self._definitions = Definitions.load(self._settings.prompts_dir)

    def _play(self, heard: Heard) -> Say:
        said = self.says.pop(0) if self.says else Say(f"I have heard of {heard.replies} replies.")
        return said if isinstance(said, Say) else said()

    @asynccontextmanager
    async def drone(self, name: str) -> AsyncIterator[Bench]:
        models = Models(self._settings)
        crew = Crew(self._settings, self._definitions, models, toolbox_of(self._settings, NO_OWN))
        async with Bench(self.store, crew=crew, name=name) as bench:
            yield bench
        await crew.close()

    def place(self, bench: Bench, prompt: str, session_id: str | None) -> WorkOrder:
        return bench.place(prompt, session_id=session_id, workspace=str(self.folder), model="fake")

    async def turn(self, bench: Bench, prompt: str, session_id: str | None = None, *says: Say) -> WorkOrder:
        self.says.extend(says)
        order = self.place(bench, prompt, session_id)
        assert await bench.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    @property
    def asked(self) -> list[list[Any]]:
        """The requests in pieces: system prompt and tools, then each message, without the marks for caches."""
        return [_pieces(json.loads(body)) for body in self.provider.asked]

    def changes(self, order: WorkOrder) -> list[str | None]:
        steps = (entry.data for entry in self.store.journal.read(order.id))
        return [step.why for step in steps if isinstance(step, AgentStep) and step.name == PREFIX_CHANGED]

    def prefixes(self, *orders: WorkOrder) -> list[tuple[int, int]]:
        replies = (entry.data for order in orders for entry in self.store.journal.read(order.id))
        prefixes = (reply.prefix for reply in replies if isinstance(reply, ModelReplied))
        return [(prefix.same_bytes, prefix.bytes) for prefix in prefixes if prefix is not None]


def _pieces(body: Any) -> Any:
    head = [body.get("system"), body.get("instructions"), body["tools"], body.get("prompt_cache_key")]
    return [_unmarked(piece) for piece in (head, *body.get("messages", body.get("input", [])))]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name != "cache_control"}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


def begins_with(later: Sequence[Any], earlier: Sequence[Any]) -> bool:
    return list(later[: len(earlier)]) == list(earlier)


def look(word: str) -> tuple[Say, Say]:
    return Say("I look. ", (Call("read_file", {"path": "README.md"}),), f"About {word}."), Say(f"{word}: seen.")


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    provider = FakeProvider(request.param)
    async with served(provider) as address:
        told = tomllib.loads(configuration(request.param, address))["models"]["fake"]
        yield Place(tmp_path, provider, ModelConfig(**told))


async def test_each_request_begins_with_the_one_before_over_turns_drones_and_takeovers(place: Place) -> None:
    async with place.drone("d1") as first, place.drone("d2") as second:
        one = await place.turn(first, "one", None, *look("one"))
        two = await place.turn(first, "two", one.session_id, *look("two"))
        three = await place.turn(second, "three", one.session_id, *look("three"))
        four = place.place(first, "four", one.session_id)

        def leave() -> Say:
            for run in first.executions:
                run.halt(Stop.HAND_BACK)
            return look("four")[0]

        place.says += [look("four")[0], leave]
        await first.runner.work(four.id)
        held = [(claim.order.id, claim.epoch) for claim in first.executions.to_hand_back()]
        place.store.claims.hand_back(held, drone="d1", message="bye")
        await second.runner.work(four.id)
    async with place.drone("d3") as third:
        await place.turn(third, "five", one.session_id, *look("five"))
    asked = place.asked
    assert len(asked) >= 11
    for number, (earlier, later) in enumerate(itertools.pairwise(asked), 1):
        assert begins_with(later, earlier), number
    assert [place.changes(order) for order in (one, two, three, four)] == [[]] * 4
    figures = place.prefixes(one, two, three)
    assert all(same == before for (same, _), (_, before) in zip(figures[1:], figures, strict=False))


async def test_later_turns_are_told_what_changed_around_them(place: Place) -> None:
    async with place.drone("d1") as bench:
        one = await place.turn(bench, "one")
        two = await place.turn(bench, "two", one.session_id)
        (place.folder / "AGENTS.md").write_text("Use spaces.")
        three = await place.turn(bench, "three", one.session_id)
        four = await place.turn(bench, "four", one.session_id)
    told = [
        entry.data.environment
        for order in (one, two, three, four)
        for entry in place.store.journal.read(order.id)
        if isinstance(entry.data, AgentStarted)
    ]
    assert told[0].startswith("Your limits: ") and told[1] == told[3] == ""
    assert told[2].startswith("# Environment (changed)\n\nWhat a look at the workspace found, and how AGENTS.md")
    assert "Use spaces." in told[2] and "Your limits" not in told[2] and "Today is" not in told[2]


async def test_a_retry_and_a_fork_are_shown_what_their_source_was(place: Place) -> None:
    async with place.drone("d1") as bench:
        one = await place.turn(bench, "one", None, *look("one"))
        at = len(place.provider.asked)
        two = await place.turn(bench, "two", one.session_id, *look("two"))
        source = place.asked[at]
        again = place.store.orders.retry(two.id, by=Actor("t")).order
        at = len(place.provider.asked)
        await bench.runner.work(again.id)
        assert place.asked[at] == source
        assert place.changes(again) == ["retry"]
        fork = place.store.orders.fork(two.id, NewFork(after=two.last_seq, prompt="three"), by=Actor("t")).order
        at = len(place.provider.asked)
        await bench.runner.work(fork.id)
        shown = place.asked[at]
        assert begins_with(shown[1:], source[1:])
        four = await place.turn(bench, "four", fork.session_id, *look("four"))
        assert begins_with(place.asked[at + 1], shown) and place.changes(four) == []


async def test_after_a_rollback_the_session_goes_on_from_before_it_and_that_is_told(place: Place) -> None:
    async with place.drone("d1") as bench:
        one = await place.turn(bench, "one", None, *look("one"))
        before = place.asked[-1]
        two = await place.turn(bench, "two", one.session_id, *look("two"))
        place.store.orders.roll_back(two.id, by=Actor("t"))
        three = await place.turn(bench, "three", one.session_id)
        four = await place.turn(bench, "four", one.session_id)
    assert place.changes(three) == ["rollback"] and place.changes(four) == []
    assert begins_with(place.asked[-2], before) and begins_with(place.asked[-1], place.asked[-2])
