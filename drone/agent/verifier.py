"""The verifier: another agent judges what an agent brought before that counts, and may send it back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from drone.agent.report import Report
from drone.agent.spending.allowance import Allowance
from drone.agent.turn import Task, Turn
from drone.agent.verdict import Work, points_of, sent_back
from mcc.contracts.ids import verifier_record_id
from mcc.contracts.journal import VerifyChecked
from mcc.contracts.order import Verification
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage

TITLE = "Verification"

SPARE_SECONDS = 1.0
"""Of an agent's time, left for its end when its verifier takes all the rest."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Judges the work of agents. `name` is the agent that does it, and `run` brings a task of it to its end."""

    name: str
    run: Callable[[Task, Turn], Awaitable[Report]]
    terms: Verification


class Verifying:
    """The verifier of one run, whose state says what became of it. `finish`: the tool that hands its result in."""

    def __init__(self, verifier: Verifier, turn: Turn, allowance: Allowance, finish: str | None) -> None:
        self._verifier = verifier
        self._turn = turn
        self._allowance = allowance
        self._state = allowance.state
        self._finish = finish

    @property
    def _record_id(self) -> str:
        """The record of the verifier: one for each result, so that a drone that takes over goes on in it."""
        return verifier_record_id(self._state.origin.record_id or "", self._state.rounds)

    async def verdict(self, brought: Report) -> VerifyChecked:
        """The entry about what the run brought. Raises `JournalError`, `Exhausted`."""
        state = self._state
        if state.landing is not None:
            return self._none(f"the limit {state.landing.limit} ({state.landing.allowed:.10g}) is reached")
        origin = state.origin
        task = Task(
            prompt=self._work(brought).asked(self._verifier.terms.rubric or "", self._record_id),
            record_id=self._record_id,
            title=TITLE,
            parent_id=origin.record_id,
            depth=origin.depth + 1,
        )
        try:
            async with asyncio.timeout(self._seconds()) as scope:

                def keep_time(stands: bool) -> None:
                    """The clock stops while the tree stands still, as that of the agent does."""
                    if not scope.expired():
                        end = asyncio.get_running_loop().time() + self._seconds()
                        scope.reschedule(None if stands else end)

                with self._turn.idle.watched(keep_time):
                    report = await self._run(task)
        except TimeoutError:
            await self._turn.journal.close(RecordStatus.CANCELLED, "its time is up", under=task.record_id)
            return self._none("its time is up")
        return self._told(report)

    def _seconds(self) -> float:
        return max(0.0, self._allowance.seconds_left() - SPARE_SECONDS)

    async def _run(self, task: Task) -> Report:
        turn = self._turn
        with turn.idle.still(task.parent_id):
            async with turn.slots.lent(task.parent_id), turn.slots.taken(task.record_id):
                report = await self._verifier.run(task, turn)
        turn.tree.records[task.record_id].transcript.let_go()
        return report

    async def let_go(self) -> None:
        """Close a verifier that an earlier drone had begun, of work that the agent goes on with."""
        record = self._turn.tree.begun(self._record_id)
        if record is not None and record.finished is None:
            why = "the agent went on with its work before there was a verdict"
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=self._record_id)

    def _work(self, brought: Report) -> Work:
        transcript = self._state.transcript
        result = brought.text if brought.result is None else to_json(brought.result).decode()
        return Work((self._state.task, *self._state.told), result, transcript.said, transcript.opening[:-1])

    def _told(self, report: Report) -> VerifyChecked:
        try:
            if report.error is not None:
                raise ValueError(report.error)
            passed, points = points_of(report.result)
        except ValueError as why:
            return self._none(str(why), report)
        revision = self._state.judged.revisions
        again = not passed and revision < self._verifier.terms.max_revisions
        return VerifyChecked(
            verifier=self._verifier.name,
            verifier_id=report.record_id,
            revision=revision,
            passed=passed,
            points=points,
            message=sent_back(points, self._finish, report.record_id) if again else "",
            model=report.model,
            usage=report.usage,
        )

    def _none(self, error: str, report: Report | None = None) -> VerifyChecked:
        """There is no verdict, and what was brought stands."""
        return VerifyChecked(
            verifier=self._verifier.name,
            verifier_id=report.record_id if report else None,
            revision=self._state.judged.revisions,
            passed=None,
            error=error,
            model=report.model if report else "",
            usage=report.usage if report else Usage(),
        )


def refusal(checked: VerifyChecked) -> str:
    """Why work is not accepted, as a sentence without its full stop."""
    tries = {0: "", 1: " after a revision"}.get(checked.revision, f" after {checked.revision} revisions")
    return f"the verifier {checked.verifier} did not accept the result{tries}: {checked.points[0]}".rstrip(".")
