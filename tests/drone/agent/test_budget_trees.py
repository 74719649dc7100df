"""Budgets of random trees: how far a limit is exceeded, that no agent waits forever, that the sums are right."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import LimitReached
from drone.agent.spending.budget import Budget, Reservation
from drone.agent.subagents.delegation import Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.record import ChatRecord
from mcc.contracts.usage import Usage
from tests.drone.agent.spender import Spender

ORDER = "order-1"
OFFERED = {"explore": "Looks around."}


@dataclass(frozen=True)
class Asked:
    """A model call: its cost, its duration and how it ends; a cancellation is that of its agent."""

    usage: Usage
    seconds: int
    end: str


@dataclass(frozen=True)
class Worker:
    """An agent: its model calls, and the agents it starts alongside the first one."""

    calls: tuple[Asked, ...]
    children: "tuple[Worker, ...]"


def usages(most: int = 3_000) -> st.SearchStrategy[Usage]:
    return st.builds(
        Usage,
        input_tokens=st.integers(0, most),
        output_tokens=st.integers(0, most),
        model_calls=st.just(1),
        cost_usd=st.one_of(st.none(), st.floats(0, 0.5)),
    )


asks = st.builds(
    Asked, usage=usages(), seconds=st.integers(0, 5), end=st.sampled_from(["reply"] * 6 + ["error", "cancel"])
)
workers = st.recursive(
    st.builds(Worker, calls=st.lists(asks, max_size=4).map(tuple), children=st.just(())),
    lambda below: st.builds(
        Worker, calls=st.lists(asks, max_size=4).map(tuple), children=st.lists(below, max_size=3).map(tuple)
    ),
    max_leaves=12,
)
tree_limits = st.builds(
    Limits,
    output_tokens=st.integers(1, 15_000),
    total_tokens=st.one_of(st.none(), st.integers(1, 30_000)),
    cost_usd=st.one_of(st.none(), st.floats(0.01, 2)),
    wall_seconds=st.one_of(st.just(1_000_000), st.integers(1, 40)),
)


class Office:
    """Runs workers against one budget, with a clock that advances only during their calls."""

    def __init__(self, limits: Limits) -> None:
        self.now = 0.0
        self.budget = Budget(limits, lambda: self.now)
        self.under_way: dict[int, Usage] = {}
        self.reserved: dict[int, Reservation] = {}
        self.when_crossed: list[tuple[dict[int, Usage], dict[int, Reservation]]] = []
        self.began_after = 0

    def used_up(self) -> bool:
        limits, spent, usd = self.budget.limits, self.budget.spent, self.budget.tree.usd
        return (
            spent.output_tokens >= limits.output_tokens
            or (limits.total_tokens is not None and spent.total_tokens >= limits.total_tokens)
            or (limits.cost_usd is not None and usd >= limits.cost_usd)
        )

    async def work(self, worker: Worker, depth: int = 0) -> None:
        spender = Spender(self.budget, depth)
        async with asyncio.TaskGroup() as group:
            for child in worker.children:
                group.create_task(self.work(child, depth + 1))
            try:
                for number, asked in enumerate(worker.calls, 1):
                    await self._ask(spender, number, asked)
            except LimitReached:
                return

    async def _ask(self, spender: Spender, number: int, asked: Asked) -> None:
        reserved = await spender.reserve(number, 4 * asked.usage.input_tokens)
        self.began_after += self.used_up()
        key = id(reserved)
        self.under_way[key], self.reserved[key] = asked.usage, reserved
        usage = None
        try:
            for _ in range(asked.seconds):
                self.now += 1
                await asyncio.sleep(0)
            if asked.end == "cancel":
                await _cancelled()
            usage = asked.usage if asked.end == "reply" else None
        finally:
            before = self.used_up()
            spender.settle(reserved, usage)
            if not before and self.used_up():
                self.when_crossed.append((dict(self.under_way), dict(self.reserved)))
            del self.under_way[key], self.reserved[key]


async def _cancelled() -> None:
    """The worker with all its calls cancelled, and those of its children."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _run(office: Office, worker: Worker) -> None:
    async with asyncio.timeout(20):
        await asyncio.gather(office.work(worker), return_exceptions=True)


@settings(deadline=None, max_examples=150)
@given(tree_limits, workers)
def test_a_limit_is_overshot_by_at_most_one_call_of_each_agent_that_runs(limits: Limits, worker: Worker) -> None:
    office = Office(limits)
    asyncio.run(_run(office, worker))
    spent = office.budget.spent
    assert office.began_after == 0
    for under_way, _ in office.when_crossed[:1]:
        assert spent.output_tokens - limits.output_tokens <= sum(one.output_tokens for one in under_way.values())
        if limits.total_tokens is not None:
            assert spent.total_tokens - limits.total_tokens <= sum(one.total_tokens for one in under_way.values())


@settings(deadline=None, max_examples=150)
@given(tree_limits, workers)
def test_where_calls_cost_what_was_set_aside_the_tree_overshoots_by_one_call(limits: Limits, worker: Worker) -> None:
    office = Office(limits)
    asyncio.run(_run(office, _within(worker)))
    largest = max((asked.usage.output_tokens for asked in _all_asked(_within(worker))), default=0)
    assert office.budget.spent.output_tokens < limits.output_tokens + max(1, largest)


@settings(deadline=None, max_examples=100)
@given(tree_limits, workers)
def test_whatever_becomes_of_the_calls_nobody_waits_for_ever_and_nothing_stays_set_aside(
    limits: Limits, worker: Worker
) -> None:
    office = Office(limits)
    asyncio.run(_run(office, worker))
    budget = office.budget
    assert budget.output_tokens_left() == limits.output_tokens - budget.spent.output_tokens
    assert not budget.full and not office.under_way


def _all_asked(worker: Worker) -> list[Asked]:
    return [*worker.calls, *(asked for child in worker.children for asked in _all_asked(child))]


def _within(worker: Worker) -> Worker:
    """The same tree with short replies."""
    calls = tuple(
        Asked(one.usage.model_copy(update={"output_tokens": one.usage.output_tokens % 300}), one.seconds, one.end)
        for one in worker.calls
    )
    return Worker(calls, tuple(map(_within, worker.children)))


@dataclass(frozen=True)
class Script:
    """An agent of a tree: the usage of each of its replies, and its children in the order of the calls."""

    usages: tuple[Usage, ...]
    children: "tuple[Script, ...]"


def scripts(depth: int) -> st.SearchStrategy[Script]:
    below = st.lists(scripts(depth - 1), max_size=3) if depth else st.just([])
    counts = st.lists(usages(50), min_size=2, max_size=4)
    return st.builds(Script, usages=counts.map(tuple), children=below.map(tuple))


class Scripted:
    """Runs a script through the real loop. An agent's prompt is its path from the root: `r.0.2`."""

    def __init__(self, script: Script) -> None:
        self.scripts: dict[str, Script] = {}
        self._name("r", script)
        self.model = ScriptedModel(by_prompt(self._said), keep_asks=False)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(Limits(depth=4)))

    def _name(self, way: str, script: Script) -> None:
        self.scripts[way] = script
        for number, child in enumerate(script.children):
            self._name(f"{way}.{number}", child)

    def _said(self, way: str, replies: int) -> Said:
        script = self.scripts[way]
        usage = script.usages[replies]
        if replies == 0 and script.children:
            names = [f"{way}.{number}" for number in range(len(script.children))]
            calls = tuple(call("subagent", agent_type="explore", prompt=name) for name in names)
            return Line(calls=calls, usage=usage)
        if replies < len(script.usages) - 1:
            return Line(calls=(call("nothing", number=replies),), usage=usage)
        return Line(text=f"{way} is done.", usage=usage)

    def _agent(self, depth: int) -> AgentRuntime:
        def hire(wanted: Wanted) -> AgentRuntime:
            return self._agent(wanted.depth)

        tools = Delegation(self.turn, OFFERED, hire, depth=depth)
        return AgentRuntime(AgentDefinition(name="explore", prompt="You look."), model=self.model, tools=tools)

    async def run(self) -> ChatRecord:
        report = await self._agent(0).run(Task("r", root_record_id(ORDER)), self.turn)
        assert report.completed, report.error
        record = self.journal.fold.record()
        assert record is not None and Fold.of(ORDER, self.journal.entries).record() == record
        return record


def summed(usages: list[Usage]) -> Usage:
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total


def spent_in(entries: list[Entry], record_id: str | None = None) -> Usage:
    """The spending of one record, or of all, according to the entries."""
    own = [entry.data for entry in entries if record_id in (None, entry.record_id)]
    replies = [fact.usage for fact in own if isinstance(fact, ModelReplied)]
    return summed([*replies, *(Usage(tool_calls=1) for fact in own if isinstance(fact, ToolFinished))])


def nodes(record: ChatRecord) -> list[ChatRecord]:
    return [record, *(node for child in record.subagent_history for node in nodes(child))]


def rounded(usage: Usage) -> Mapping[str, object]:
    """Rounds away the differences between sums of the same prices in another order."""
    told = usage.model_dump()
    return {**told, "cost_usd": None if usage.cost_usd is None else round(usage.cost_usd, 9)}


@settings(deadline=None, max_examples=60)
@given(scripts(3))
def test_the_usage_of_the_root_is_the_sum_over_the_journal_and_that_of_each_node_its_own(script: Script) -> None:
    scripted = Scripted(script)
    record = asyncio.run(scripted.run())
    entries = scripted.journal.entries
    assert rounded(record.usage_total) == rounded(spent_in(entries))
    assert rounded(record.usage_total) == rounded(summed([node.usage for node in nodes(record)]))
    assert len(nodes(record)) == len(scripted.scripts)
    for node in nodes(record):
        assert rounded(node.usage) == rounded(spent_in(entries, node.id))
        asked = summed(list(scripted.scripts[node.prompt].usages))
        assert rounded(node.usage.model_copy(update={"tool_calls": 0})) == rounded(asked)
        assert rounded(node.usage_total) == rounded(summed([one.usage for one in nodes(node)]))
    assert scripted.turn.budget.spent.model_calls == record.usage_total.model_calls


@settings(deadline=None, max_examples=30)
@given(scripts(2))
def test_every_start_of_a_model_names_what_was_set_aside_and_every_agent_ends(script: Script) -> None:
    scripted = Scripted(script)
    asyncio.run(scripted.run())
    facts = [entry.data for entry in scripted.journal.entries]
    starts = [fact for fact in facts if isinstance(fact, ModelStarted)]
    assert starts and all(fact.reserved_tokens > 0 for fact in starts)
    assert sum(isinstance(fact, AgentStarted) for fact in facts) == sum(
        isinstance(fact, AgentFinished) for fact in facts
    )


def test_one_unknown_price_makes_the_sums_above_it_unknown_and_no_other() -> None:
    priced = Usage(input_tokens=10, output_tokens=1, model_calls=1, cost_usd=0.5)
    unknown = priced.model_copy(update={"cost_usd": None})
    script = Script((priced, priced), (Script((unknown, priced), ()), Script((priced, priced), ())))
    record = asyncio.run(Scripted(script).run())
    assert (record.usage_total.cost_usd, record.usage.cost_usd) == (None, 1.0)
    assert [child.usage_total.cost_usd for child in record.subagent_history] == [None, 1.0]
