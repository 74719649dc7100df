"""The tools for subagents in the background: starting them, and looking after those that run."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drone.agent.background import SUBAGENT_STEER, background_of, let_go, report_of_ended, tell
from drone.agent.ports.conversations import as_report
from drone.agent.ports.report import Report
from drone.agent.state.record import SUBAGENT_WAIT
from drone.agent.subagents.assignments import (
    OF_BACKGROUND,
    SUBAGENT_CANCEL,
    SUBAGENT_STATUS,
    Assignments,
    BadAssignment,
    message_of,
    record_of,
    waiting_of,
)
from drone.agent.subagents.children import CannotSpawn, child_task, take_spawn
from drone.agent.turns.background import Background, BackgroundChild
from drone.agent.turns.call_ends import refusal
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import to_json

LAST = 200
"""Most characters of what an agent said last."""

_CANCELLED = "the agent that started it cancelled it"

Work = Callable[[int, Callable[[], None]], Awaitable[Report | str]]
"""Runs the agent at this index of a call, and calls the function when it begins; answers its report, or why it did not
run."""


async def start(call: StartedCall, turn: Turn, asked: Assignments, work: Work, *, alone: bool) -> Output:
    """Start the agents of a call, and answer at once. A call run again goes on with those that it had started.

    `alone`: the answer is that about its only agent.
    """
    known = background_of(turn, call.origin)
    started = [_start(call, turn, known, asked, index, work) for index in range(len(asked.agents))]
    # The tasks take their first step: it says which have a slot, and which cannot be hired.
    await asyncio.sleep(0)
    for child in started:
        if isinstance(child, BackgroundChild) and isinstance(child.outcome, str):
            known.forget(child)
            await let_go(turn, child.child_id, child.outcome)
    said = [_said(child) for child in started]
    # One whose report a call beside this one has brought, under an earlier drone, was started by this call as well.
    hired = [child for child in started if isinstance(child, BackgroundChild)]
    ids_of_hired = tuple(child.child_id for child in hired if child.taken or known.find(child.child_id))
    ids = [assignment.id for assignment in asked.agents]
    content = said[0] if alone else {"agents": [{"id": name, **state} for name, state in zip(ids, said, strict=True)]}
    if not ids_of_hired:
        return refusal(said[0]["summary"] if alone else to_json(content).decode(), Outcome.DENIED)
    return Output(to_json(content).decode(), untrusted=False, background=ids_of_hired, found=OF_BACKGROUND)


def _start(
    call: StartedCall, turn: Turn, known: Background, asked: Assignments, index: int, work: Work
) -> "BackgroundChild | str":
    """One of the agents of a call; a sentence where there may not be any more agents."""
    assignment = asked.agents[index]
    task = child_task(call, "", assignment.display_name, index)
    if (already := known.find(task.record_id)) is not None:
        return already
    child = BackgroundChild(task.record_id, assignment.role, assignment.display_name, asked.background or "wait")
    if child.child_id in turn.tree.record(call.origin).children.delivered:
        child.taken = True
        return child
    if (report := report_of_ended(turn, call.origin, child.child_id)) is not None:
        child.outcome = report
        known.add(child)
        return child
    try:
        take_spawn(turn, task)
    except CannotSpawn as error:
        return str(error)

    def began() -> None:
        child.began = _worked(turn)

    known.start(child, lambda: work(index, began))
    return child


def _said(child: "BackgroundChild | str") -> dict[str, Any]:
    if isinstance(child, str):
        return {"status": "blocked", "summary": child}
    if isinstance(child.outcome, str):
        return {"status": "failed", "summary": child.outcome}
    status = "finished" if child.outcome is not None or child.taken else "queued" if child.began is None else "running"
    return {"record_id": child.child_id, "status": status}


async def look_after(call: StartedCall, turn: Turn) -> Output:
    """Run one of the tools `OF_BACKGROUND`. Raises `BadAssignment`, `JournalError`."""
    hired = _Hired(call, turn, background_of(turn, call.origin))
    if call.name == SUBAGENT_WAIT:
        return await hired.wait()
    if call.name == SUBAGENT_CANCEL:
        return await hired.cancel()
    return hired.steer() if call.name == SUBAGENT_STEER else hired.status()


@dataclass(frozen=True, slots=True)
class _Hired:
    """The subagents in the background of the agent that calls."""

    call: StartedCall
    turn: Turn
    known: Background

    def _find(self, record_id: str) -> BackgroundChild:
        """One whose report the agent does not have yet. Raises `BadAssignment`."""
        child = self.known.find(record_id)
        delivered = self.turn.tree.record(self.call.origin).children.delivered
        if record_id in delivered or (child is not None and child.taken):
            raise BadAssignment(f"{record_id} has ended, and you have its report.")
        if child is None:
            raise BadAssignment(
                f"You have no subagent {record_id[:100]!r} in the background: use a record_id that the call which "
                "started it names."
            )
        return child

    async def wait(self) -> Output:
        wanted = waiting_of(self.call.arguments)
        untaken = [child for child in self.known if not child.taken]
        children = untaken if wanted.record_ids is None else [*map(self._find, wanted.record_ids)]
        if not children:
            raise BadAssignment("There is nobody to wait for: you have no subagent in the background.")
        agent_control = self.turn.router.running(self.call.origin.record_id)
        assert agent_control is not None
        mail, enough = agent_control.mail, any if wanted.first else all

        def done() -> bool:
            return bool(mail) or enough(child.outcome is not None for child in children if not child.taken)

        with self.turn.idle.waiting(self.call.call_id), mail.announced(self.known.wake):
            async with self.turn.slots.lent(self.call.origin.record_id):
                await self.known.until(done, wanted.seconds)
        ended = [child for child in self.known.ready if child in children]
        reports = await self._take(ended)
        running = [child.child_id for child in children if child.outcome is None]
        return self._output({"agents": reports, "running": running}, ended)

    async def _take(self, ended: Sequence[BackgroundChild]) -> list[dict[str, Any]]:
        """Their reports, which nobody else is given from now on."""
        for child in ended:
            child.taken = True
        reports: list[dict[str, Any]] = []
        try:
            for child in ended:
                said = {"record_id": child.child_id, "status": child.status.value, "summary": child.outcome}
                report = child.outcome
                reports.append(
                    (await as_report(report, self.turn.artifacts))[0] if isinstance(report, Report) else said
                )
        except BaseException:
            for child in ended:
                child.taken = False
            raise
        return reports

    def _output(self, content: object, ended: Sequence[BackgroundChild]) -> Output:
        ids = tuple(child.child_id for child in ended)
        reports = tuple(child.outcome for child in ended if isinstance(child.outcome, Report))
        return Output(to_json(content).decode(), subagent_ids=ids, children=reports, delivered=ids)

    async def cancel(self) -> Output:
        child = self._find(record_of(self.call.arguments, SUBAGENT_CANCEL))
        self.known.stop(child, _CANCELLED)
        with self.turn.idle.waiting(self.call.call_id):
            async with self.turn.slots.lent(self.call.origin.record_id):
                await self.known.until(lambda: child.outcome is not None, None)
        if isinstance(child.outcome, str):
            await let_go(self.turn, child.child_id, _CANCELLED)
            child.outcome = report_of_ended(self.turn, self.call.origin, child.child_id) or child.outcome
        if child.taken:
            raise BadAssignment(f"{child.child_id} has ended, and another call of yours brings its report.")
        [report] = await self._take([child])
        return self._output(report, [child])

    def steer(self) -> Output:
        record_id, message = message_of(self.call.arguments, SUBAGENT_STEER)
        child = self._find(record_id)
        if child.outcome is not None:
            raise BadAssignment(f"{record_id} has ended already: its report is on the way to you.")
        tell(self.turn, record_id, message, self.call.call_id)
        return Output(to_json({"ok": True}).decode(), untrusted=False)

    def status(self) -> Output:
        if self.call.arguments:
            raise BadAssignment(f"{SUBAGENT_STATUS} takes no arguments.")
        hired = self.turn.tree.record(self.call.origin).children
        agents = [self._state(child_id) for child_id in dict.fromkeys((*hired.background, *self.known.ids))]
        return Output(to_json({"agents": agents}).decode())

    def _state(self, child_id: str) -> dict[str, Any]:
        child, run = self.known.find(child_id), self.turn.tree.begun(child_id)
        seconds = _worked(self.turn) - child.began if child is not None and child.began is not None else 0.0
        return {
            "record_id": child_id,
            "agent": child.agent if child is not None else (run.origin.agent if run is not None else "") or "",
            "title": child.title if child is not None else run.started.title if run and run.started else "",
            "status": self._status(child_id, child),
            "rounds": run.rounds if run is not None else 0,
            "output_tokens": run.used.output_tokens if run is not None else 0,
            "seconds": round(seconds, 1),
            "last": run.text[-LAST:] if run is not None else "",
        }

    def _status(self, child_id: str, child: BackgroundChild | None) -> str:
        if child is None or child.taken:
            return "delivered"
        if child.outcome is not None:
            return "finished"
        if child.began is None:
            return "queued"
        agent_control, run = self.turn.router.running(child_id), self.turn.tree.begun(child_id)
        calls = run.open.started if run is not None and run.open is not None else ()
        stands = agent_control is not None and (agent_control.paused or agent_control.waits_for_provider)
        return "waiting" if stands or self.turn.idle.is_blocked((child_id, *calls)) else "running"


def _worked(turn: Turn) -> float:
    """Seconds that the turn has worked, without the time in which it was idle."""
    return turn.budget.limits.wall_seconds - turn.budget.seconds_left()
