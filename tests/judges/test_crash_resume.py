"""The judge `crashresume`: the library, killed after each effect and resumed from its journal, does each effect once
and ends as it would have ended anyway."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import crashresume
from crashresume.core import Context, InjectedCrash

import drone
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from drone.tools.frame.tool import ToolContext
from mcc.contracts.entry import Entry
from mcc.contracts.ids import derived_id, root_record_id
from mcc.contracts.journal import ToolFinished

JUDGE = "crashresume"

INPUTS = ("first", "second", "third")


class Killed(BaseException):
    """What a crash is to the runtime: no error of a tool, which the model would be told."""


@dataclass
class Disk:
    """What outlives a process in one scenario: entries by order, texts, and how often a round was asked for."""

    entries: defaultdict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    texts: dict[str, str] = field(default_factory=dict)
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)


def said(task: str, replies: int) -> Said:
    """Three rounds with effects, two of them at once, one of them by a subagent."""
    if task.startswith("part of"):
        part: list[Said] = [Line(calls=(call("act", what="pack"), call("act", what="label"))), f"{task} is packed."]
        return part[replies]
    rounds: list[Said] = [
        Line(calls=(call("act", what="charge"),)),
        Line(calls=(call("act", what="reserve"), call("packer", input=f"part of {task}"), call("act", what="invoice"))),
        Line(calls=(call("act", what="ship"),)),
        f"{task} is done.",
    ]
    return rounds[replies]


@dataclass
class Subject:
    """An agent of the library whose steps are orders. `careful`: its tool looks up whether its effect was had."""

    ctx: Context
    disk: Disk
    careful: bool = True
    ends: dict[str, Any] = field(default_factory=dict)

    def step(self, name: str) -> None:
        try:
            self.ends[name] = asyncio.run(self._run(name))
        except BaseException as error:
            crash = next((one for one in leaves(error) if isinstance(one, Killed)), None)
            if crash is None:
                raise
            raise InjectedCrash(str(crash)) from error

    def state(self) -> dict[str, Any]:
        return self.ends

    def _said(self, task: str, replies: int) -> Said:
        self.disk.asked[task, replies] += 1
        return said(task, replies)

    async def _run(self, name: str) -> tuple[object, ...]:
        # Not of the scenario: what was had under a key in one process has the same key in the next.
        order_id = derived_id("crashresume", name)
        kept = self.disk.entries[order_id]
        journal = drone.MemoryJournal(order_id, entries=kept, watch=kept.append)
        journal.texts = self.disk.texts
        tree = drone.Tree.of(kept)
        agent = self._agent("master", drone.SubAgent(self._agent("packer"), description="Packs a part."))
        task = Task(name, root_record_id(order_id), name)
        report = await agent.run(task, agent.turn(journal, tree))
        calls = [entry.data for entry in journal.entries if isinstance(entry.data, ToolFinished)]
        results = sorted((done.call_id, done.name, done.content, done.is_error) for done in calls)
        return report.status.value, report.text, report.usage.model_calls, results

    def _agent(self, name: str, *others: Any) -> drone.Agent:
        @drone.tool(idempotent=True)
        async def act(context: ToolContext, what: str) -> str:
            """Act on the world."""
            had = self.ctx.effects.keys()
            if not (self.careful and context.call_id in had):
                try:
                    self.ctx.effect(what, key=context.call_id)
                except InjectedCrash as crash:
                    raise Killed(str(crash)) from crash
            return f"{what}: done"

        definition = drone.AgentDefinition(name=name, prompt=f"You are {name}.", result="text")
        return drone.Agent(definition, model=ScriptedModel(by_prompt(self._said)), tools=[act, *others])


def leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def judged(disks: defaultdict[str, Disk], *, careful: bool = True) -> crashresume.ConformanceReport:
    """The judge's report; `disks` are those of its scenarios, by `run_id`."""
    return crashresume.conform(lambda ctx: Subject(ctx, disks[ctx.run_id], careful), INPUTS)


def test_the_library_survives_a_crash_after_each_of_its_effects() -> None:
    disks: defaultdict[str, Disk] = defaultdict(Disk)
    report = judged(disks)
    assert report.passed, str(report)
    assert report.crash_points == 6 * len(INPUTS), "every effect of every order was one"
    assert {asked for disk in disks.values() for asked in disk.asked.values()} == {1}, "no round is asked for again"


def test_the_judge_finds_an_effect_that_is_had_twice() -> None:
    assert {one.kind for one in judged(defaultdict(Disk), careful=False).findings} == {"effect_replayed"}
