"""The delegation tools: they run one child agent, or a group of them, in the caller's event loop."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.conversations import CannotContinue, as_report
from drone.agent.ports.report import Report, describe_or_raise
from drone.agent.subagents.assignments import (
    AT_ONCE,
    OF_BACKGROUND,
    SUBAGENT,
    SUBAGENT_SEND,
    SUBAGENTS_RUN,
    Assignment,
    Assignments,
    BadAssignment,
    assignment_of,
    assignments_of,
    message_of,
)
from drone.agent.subagents.background import look_after, start
from drone.agent.subagents.children import (
    CannotHire,
    CannotSpawn,
    Children,
    Hire,
    HiringCall,
    TimeIsUp,
    Wanted,
    check_depth,
    report_output,
)
from drone.agent.subagents.offers import offers
from drone.agent.turns.call_ends import refusal
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from drone.threads import side_by_side
from mcc.contracts.fence import fenced
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import to_json
from mcc.transcript.messages import ToolSpec


@dataclass(frozen=True, slots=True)
class Member:
    """The outcome of one assignment: a report, or a sentence why it did not run (`impossible`: it never could)."""

    assignment: Assignment
    report: Report | None = None
    not_run: str = ""
    impossible: bool = False

    @property
    def completed(self) -> bool:
        return self.report is not None and self.report.completed


class AgentGroup:
    """The children of one call of `subagents_run`."""

    def __init__(self, children: Children, asked: Assignments, caller: HiringCall) -> None:
        self._children = children
        self._asked = asked
        self._caller = caller
        self._members: dict[int, Member] = {}
        self._running: dict[int, str] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._over = ""
        self._worked_before = self._worked()
        self._width = asyncio.Semaphore(asked.max_concurrency or AT_ONCE)

    async def run(self) -> Sequence[Member]:
        """Run all of them; returns their outcomes in the order of the call. Raises `JournalError`."""
        if self._asked.mode == "chain":
            await self._one_by_one()
        else:
            await self._side_by_side()
        return [self._members[index] for index in range(len(self._asked.agents))]

    async def _one_by_one(self) -> None:
        previous: str | None = None
        for index, assignment in enumerate(self._asked.agents):
            if self._over:
                self._members[index] = Member(assignment, not_run=self._over)
                continue
            member = await self._member(index, assignment, assignment.prompt(previous))
            self._members[index] = member
            broken = f"Not run, because {member.assignment.id!r} before it did not complete."
            self._over = (self._reason_to_stop() or "") if member.completed else broken
            if member.report is not None:
                said, _ = await self._children.turn.artifacts.fitted(member.report.text, readable=False)
                previous = fenced(said, member.report.record_id)

    async def _side_by_side(self) -> None:
        """Run all concurrently within `max_concurrency` and the turn's slots; the others queue for a free place."""

        async def one(index: int, assignment: Assignment) -> None:
            async with self._width:
                self._members[index] = await self._member(index, assignment, assignment.prompt())
            self._running.pop(index, None)
            if why := self._reason_to_stop():
                self._call_off(why)

        async with side_by_side() as start:
            for index, assignment in enumerate(self._asked.agents):
                self._tasks[index] = start(partial(one, index, assignment))
        for index, assignment in enumerate(self._asked.agents):
            self._members.setdefault(index, Member(assignment, not_run=self._over))

    async def in_background(self, index: int, began: Callable[[], None]) -> Report | str:
        """Run one of them for itself: its report, or why it did not run. `began` is called when it begins."""
        assignment = self._asked.agents[index]
        async with self._width:
            member = await self._member(index, assignment, assignment.prompt(), began)
        return member.report or member.not_run

    async def _member(
        self, index: int, assignment: Assignment, prompt: str, began: Callable[[], None] | None = None
    ) -> Member:
        def begin(record_id: str) -> float | None:
            seconds = self._seconds(record_id)
            self._running[index] = record_id
            if began is not None:
                began()
            return seconds

        try:
            return Member(assignment, await self._children.run(self._caller, assignment, prompt, index, begin))
        except CannotSpawn as error:
            return Member(assignment, not_run=str(error))
        except CannotHire as error:
            return Member(assignment, not_run=str(error), impossible=True)
        except BaseException as error:
            return Member(assignment, not_run=f"It could not be started: {describe_or_raise(error)}", impossible=True)

    def _seconds(self, record_id: str) -> float | None:
        """The wall clock of this child in seconds. For one that an earlier drone had begun, counted from its original
        start. Raises `TimeIsUp`.
        """
        item, total = self._asked.item_seconds, self._asked.total_seconds
        if total is None:
            return item
        tree = self._children.turn.tree
        calls = [child_record_id(self._caller.call_id, index) for index in range(len(self._asked.agents))]
        before = {known: begun.began_after for known in calls if (begun := tree.begun(known)) is not None}
        since = min((began for began in before.values() if began is not None), default=self._worked_before)
        began = before.get(record_id)
        left = round(total - ((self._worked() if began is None else began) - since), 3)
        if left <= 0:
            raise TimeIsUp(f"Not run: the time of the whole call, total_seconds ({total:g}), is up.")
        return left if item is None else min(item, left)

    def _worked(self) -> float:
        """Seconds used of the turn's wall clock, which stops while the turn is idle."""
        budget = self._children.turn.budget
        return budget.limits.wall_seconds - budget.seconds_left()

    def _reason_to_stop(self) -> str | None:
        """Why the policy needs no further members; None while it does."""
        if self._asked.policy == "quorum":
            completed = sum(member.completed for member in self._members.values())
            if completed >= (self._asked.quorum or 0):
                return f"Not needed any more: {completed} of the agents have completed."
        if self._asked.policy == "fail_fast":
            failed = next((member for member in self._members.values() if not member.completed), None)
            if failed is not None:
                return f"Called off, because {failed.assignment.id!r} did not complete."
        return None

    def _call_off(self, why: str) -> None:
        """Cancel the running children, and do not start the others."""
        if self._over:
            return
        self._over = why
        for index, task in self._tasks.items():
            if index in self._running:
                self._children.turn.router.cancel(self._running[index], why.rstrip("."))
            elif index not in self._members:
                # It still waits for its place, so it has no record that could be cancelled.
                task.cancel()


async def answer(members: Sequence[Member], asked: Assignments, turn: Turn) -> Output:
    """The tool result: `{agents: [report, …]}` in the order of the call, each with its `id`; with a `note` when
    `max_concurrency` was reduced. Raises `JournalError`.
    """
    answers = [await _answer_of(member, turn.artifacts) for member in members]
    answer = {"agents": [{"id": member.assignment.id, **said} for member, said in zip(members, answers, strict=True)]}
    note = _concurrency_note(asked, turn.budget.limits.concurrency)
    reports = tuple(member.report for member in members if member.report is not None)
    is_error = not _policy_met(members, asked)
    return Output(
        to_json({**answer, "note": note} if note else answer).decode(),
        is_error=is_error,
        outcome=Outcome.ERROR if is_error else Outcome.OK,
        subagent_ids=tuple(report.record_id for report in reports),
        children=reports,
    )


def _concurrency_note(asked: Assignments, allowed: int) -> str | None:
    """The note to a parent that requested more concurrent agents than the order allows."""
    wanted = min(asked.max_concurrency or 0, len(asked.agents))
    if asked.mode == "chain" or wanted <= allowed:
        return None
    return f"max_concurrency {asked.max_concurrency} was cut to {allowed}: the order's limit concurrency."


async def _answer_of(member: Member, artifacts: Artifacts) -> dict[str, Any]:
    if member.report is not None:
        return (await as_report(member.report, artifacts))[0]
    return {
        "status": "failed" if member.impossible else "blocked",
        "summary": member.not_run,
        "role": member.assignment.role,
        "display_name": member.assignment.display_name,
    }


def _policy_met(members: Sequence[Member], asked: Assignments) -> bool:
    """Whether enough members have completed for the policy."""
    completed = sum(member.completed for member in members)
    match asked.policy:
        case "best_effort":
            return True
        case "quorum":
            return completed >= (asked.quorum or 0)
        case "collect" | "fail_fast":
            return completed == len(members)
        case _:
            assert_never(asked.policy)


__all__ = ["DELEGATION_TOOLS", "SUBAGENT", "CannotHire", "Delegation", "Hire", "Wanted"]

DELEGATION_TOOLS = (SUBAGENT, SUBAGENTS_RUN, SUBAGENT_SEND, *OF_BACKGROUND)


class Delegation:
    """The delegation tools of one agent. `offered`: agent types with descriptions; without any there are no tools.
    `tools`: the delegation tools it has. `models`: names of models that it may choose from.
    """

    def __init__(
        self,
        turn: Turn,
        offered: Mapping[str, str],
        hire: Hire,
        *,
        depth: int,
        tools: Collection[str] = DELEGATION_TOOLS,
        models: Sequence[str] = (),
    ) -> None:
        self._turn = turn
        self._depth = depth
        self._most = turn.budget.limits.subagents_per_call
        self._children = Children(turn, offered, hire, keeps=SUBAGENT_SEND in tools)
        shown = offers(offered, self._most, models) if offered else ()
        self._specs = tuple(spec for spec in shown if spec.name in tools)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: StartedCall) -> Output:
        if all(call.name != spec.name for spec in self._specs):
            return refusal(f"You may not use {call.name}.", Outcome.DENIED)
        try:
            if call.name in OF_BACKGROUND:
                return await look_after(call, self._turn)
            check_depth(self._turn, self._depth + 1)
            if (asked := self._for_background(call)) is not None:
                work = AgentGroup(self._children, asked, call).in_background
                return await start(call, self._turn, asked, work, alone=call.name == SUBAGENT)
            with self._turn.idle.waiting(call.call_id):
                async with self._turn.slots.lent(call.origin.record_id):
                    return await self._run(call)
        except CannotSpawn as error:
            return refusal(str(error), Outcome.DENIED)
        except (BadAssignment, CannotHire, CannotContinue) as error:
            return refusal(str(error))

    def _for_background(self, call: StartedCall) -> Assignments | None:
        """What the call wants done in the background; None where it waits for its agents. Raises `BadAssignment`."""
        if call.name == SUBAGENTS_RUN:
            asked = assignments_of(call.arguments, self._most)
            return None if asked.background is None else asked
        if call.name != SUBAGENT:
            return None
        wanted = assignment_of(call.arguments, self._children.offered)
        return None if wanted.background is None else Assignments((wanted,), background=wanted.background)

    async def _run(self, call: StartedCall) -> Output:
        if call.name == SUBAGENTS_RUN:
            asked = assignments_of(call.arguments, self._most)
            members = await AgentGroup(self._children, asked, call).run()
            return await answer(members, asked, self._turn)
        if call.name == SUBAGENT_SEND:
            report = await self._children.send(call, *message_of(call.arguments))
        else:
            wanted = assignment_of(call.arguments, self._children.offered)
            report = await self._children.run(call, wanted, wanted.prompt())
        return await report_output(report, self._turn.artifacts)
