"""A turn with a verifier, resumed after any entry: judged once, sent back once, with the same end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from drone.agent.ports.report import Cause, Report, outcome_of
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task, Turn
from drone.definitions import Definitions
from drone.hiring import Hiring, ModelNames, Terms
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.entry import ORDER as ORDER_ORIGIN
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.ids import root_record_id, verifier_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ControlApplied, ToolFinished, VerifyChecked
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import Verification
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.status import OrderStatus
from mcc.definitions.scopes import AgentFile, installed
from mcc.store.rows.forking import cut, forked
from tests.drone.agent.random_trees import FollowedJournal
from tests.mcc.contracts.samples import AT
from tests.parity.world import OneModel

ORDER, FORK = "order", "fork"
RUBRIC, AGENT = Verification(rubric="It is green."), Verification(agent="reviewer")
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
FILES = {
    "master": "result: text\ntools: [workspace_read]",
    "reviewer": "tools: [workspace_read]",
    "verify": "tools: []",
}


@dataclass
class Drone:
    """A drone that runs a verified turn, from the start or from another drone's entries."""

    terms: Terms
    left: Sequence[Entry] = ()
    texts: dict[str, str] = field(default_factory=dict)
    order_id: str = ORDER
    roles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.journal = FollowedJournal(self.order_id, self.left)
        self.journal.texts.update(self.texts)
        self.turn = Turn.begun(self.journal, Budget(Limits()), tree=Tree.of(self.left))
        self.journal.live = self.turn.tree
        self.model = ScriptedModel(by_prompt(self._play))
        self.judging, self.verdict_comes = asyncio.Event(), asyncio.Event()
        self.verdict_comes.set()

    async def run(self) -> Report:
        files = [
            AgentFile(name, f"{name}.md", f"---\nname: {name}\n{more}\n---\nBe {name}.\n".encode())
            for name, more in FILES.items()
        ]
        models, names = OneModel(self.model, ("strict",)), ModelNames(roles=self.roles)
        hiring = Hiring(Definitions(installed(files)), models, self.turn, self.terms, names=names)
        hiring.make_gates("master")

        @tool(group="workspace_read", idempotent=True)
        async def read_file(path: str) -> str:
            """Read a file."""
            return f"{path} is green"

        master = hiring.master("master", None, FunctionTools([read_file]))
        return await master.run(Task("go", root_record_id(self.order_id), "Go"), self.turn)

    def _play(self, task: str, replies: int) -> Said:
        looks = Line(calls=(call("read_file", path="a"),))
        if task.startswith("Judge "):
            self.judging.set()
            passed = "2 is green" in task
            verdict = call("submit_result", passed=passed, points=[] if passed else ["Not green."])
            said = Line(calls=(verdict,), gate=self.verdict_comes)
            return [looks, said][replies if self.terms.verify == AGENT else 1]
        answer = "2 is green." if replies > 1 else "1 is blue."
        if replies == 0:
            return looks
        return answer if self.terms.result_schema is None else Line(calls=(call("submit_result", answer=answer),))

    def facts(self, kind: type[Any]) -> list[Any]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, kind)]

    def story(self) -> list[tuple[str, str | None]]:
        return [(entry.kind, entry.agent) for entry in self.journal.entries]


VARIANTS = [Terms(schema, (), verify) for schema in (None, SCHEMA) for verify in (RUBRIC, AGENT)]


@pytest.mark.parametrize("terms", VARIANTS, ids=["answer-rubric", "answer-agent", "result-rubric", "result-agent"])
async def test_after_every_entry_another_drone_brings_the_same_and_asks_nothing_twice(terms: Terms) -> None:
    first = Drone(terms)
    whole = outcome_of(await first.run())
    assert whole.accepted is True and [one.passed for one in first.facts(VerifyChecked)] == [False, True]
    replies = len(first.facts(ModelReplied))
    for commit in range(2, len(first.journal.entries) + 1):
        left = first.journal.entries[:commit]
        second = Drone(terms, left, first.journal.texts)
        assert outcome_of(await second.run()) == whole, commit
        assert len(second.facts(VerifyChecked)) == 2, commit
        assert len(second.facts(ModelReplied)) == replies, commit
        assert second.facts(VerifyChecked) == first.facts(VerifyChecked), commit
        assert len(second.facts(AgentStarted)) == len(second.facts(AgentFinished)) == 3, commit


async def test_a_steer_between_the_verdict_and_the_end_is_answered_and_judged_anew() -> None:
    first = Drone(VARIANTS[0])
    await first.run()
    entries = first.journal.entries
    begun = [entry for entry in entries if isinstance(entry.data, AgentStarted)][1]
    steered = ControlApplied(control_id="c", control="steer", mode="inject", message="And shortly.")
    for after in range(begun.seq, entries[-1].seq):
        left = entries[:after]
        root = left[0]
        left.append(root.model_copy(update={"seq": after + 1, "data": steered}))
        second = Drone(VARIANTS[0], left, first.journal.texts)
        report = await second.run()
        assert report.checked is not None and report.checked.passed, after
        assert len(second.facts(AgentStarted)) == len(second.facts(AgentFinished)), after
        last = second.model.asks[-1].messages[-1]
        assert "And shortly." in getattr(last, "text", ""), after


@pytest.mark.parametrize("prompt", [None, "And shortly."])
async def test_a_fork_after_any_entry_goes_on_with_the_verifier_where_it_was(prompt: str | None) -> None:
    first = Drone(VARIANTS[1])
    await first.run()
    queued = OrderQueued(session_id="s", session_seq=1, agent="master", queue="default", priority=5)
    moved = [entry.model_copy(update={"seq": entry.seq + 1}) for entry in first.journal.entries]
    source = [Draft(at=AT, origin=ORDER_ORIGIN, data=queued).numbered(ORDER, 1), *moved]
    for after in range(3, len(source)):
        place = cut(source[: after + 1], after)
        if place.after < 3:
            continue
        made = forked(source, place, FORK, AT, prompt)
        left = [
            Draft(at=AT, origin=ORDER_ORIGIN, data=queued.model_copy(update={"forked": made.forked})).numbered(FORK, 1),
            *(draft.numbered(FORK, seq) for seq, draft in enumerate(made.drafts, start=2)),
        ]
        second = Drone(VARIANTS[1], left, first.journal.texts, order_id=FORK)
        report = await second.run()
        assert report.completed and report.checked is not None and report.checked.passed, after
        begun, ended = second.facts(AgentStarted), second.facts(AgentFinished)
        assert len(begun) == len(ended), after
        if prompt is None:
            assert len(begun) == 3, after
            assert len(second.facts(ModelReplied)) == len(first.facts(ModelReplied)), after


async def interrupted(asked: Control) -> tuple[Drone, Report]:
    """A turn that is lost during its first verification, and the controls sent meanwhile."""
    drone = Drone(VARIANTS[0])
    drone.verdict_comes.clear()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(drone.run())
        await drone.judging.wait()
        assert await drone.turn.router.take(asked) is None
    return drone, running.result()


def control(kind: ControlKind, record_id: str | None = None, message: str | None = None) -> Control:
    return Control(id="c", order_id=ORDER, number=1, kind=kind, record_id=record_id, message=message, requested_at=AT)


async def test_an_order_that_is_cancelled_while_it_is_judged_ends_with_its_verifier() -> None:
    drone, report = await interrupted(control(ControlKind.CANCEL))
    assert report.cause is Cause.CANCELLED and drone.facts(VerifyChecked) == []
    assert len(drone.facts(AgentStarted)) == len(drone.facts(AgentFinished)) == 2


async def test_a_verifier_that_a_person_cancels_has_no_verdict_and_the_answer_stands() -> None:
    verifier = verifier_record_id(root_record_id(ORDER), 2)
    drone, report = await interrupted(control(ControlKind.CANCEL, verifier))
    outcome = outcome_of(report)
    assert (outcome.status, outcome.answer, outcome.accepted) == (OrderStatus.SUCCEEDED, "1 is blue.", None)
    assert outcome.detail and outcome.detail.startswith("Not verified: a person cancelled it")
    (checked,) = drone.facts(VerifyChecked)
    assert (checked.passed, checked.verifier_id) == (None, verifier)


@pytest.mark.parametrize("terms", [VARIANTS[0], VARIANTS[2]], ids=["answer", "result"])
async def test_what_a_person_says_while_the_verifier_judges_is_read_before_the_end(terms: Terms) -> None:
    drone = Drone(terms)
    drone.verdict_comes.clear()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(drone.run())
        await drone.judging.wait()
        assert await drone.turn.router.take(control(ControlKind.STEER, message="And shortly.")) is None
        drone.verdict_comes.set()
    checked = running.result().checked
    assert checked is not None and checked.passed
    asked = [ask for ask in drone.model.asks if "And shortly." in str(ask.messages)]
    assert asked and "And shortly." in str(asked[-1].messages[0]), "the last verifier was told of it too"


async def test_a_rubric_is_judged_by_the_model_of_its_role() -> None:
    drone = Drone(VARIANTS[0], roles={"verify": "strict"})
    await drone.run()
    assert [one.model.requested for one in drone.facts(AgentStarted)] == ["scripted/model", "strict", "strict"]


async def test_what_a_person_said_after_an_accepted_result_is_read_by_the_drone_that_takes_over() -> None:
    terms = Terms(SCHEMA, (), None)
    first = Drone(terms)
    assert (await first.run()).completed
    accepted = [entry.seq for entry in first.journal.entries if isinstance(entry.data, ToolFinished)][-1]
    second = Drone(terms, first.journal.entries[:accepted], first.journal.texts)
    assert await second.turn.router.take(control(ControlKind.STEER, message="And shortly.")) is None
    async with asyncio.timeout(30):
        assert (await second.run()).completed
    assert "And shortly." in str(second.model.asks[-1].messages[-1])
    assert len(second.facts(ModelReplied)) == len(first.facts(ModelReplied)) + 1
