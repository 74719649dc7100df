"""The verifier: an agent that judges another agent's result before it counts, and may send it back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drone.agent.ports.report import Report
from drone.agent.spending.allowance import Allowance
from drone.agent.turns.turn import Task, Turn
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import fenced, unfenced
from mcc.contracts.ids import verifier_record_id
from mcc.contracts.journal import VerifyChecked
from mcc.contracts.order import Rule, Verification
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage
from mcc.rules.report import cut, few
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from mcc.transcript.transcript import request_in

VERIFY = "verify"
"""Name of the default agent that judges results by a rubric."""

POINTS = 10
POINT_CHARACTERS = 1_000
"""Most points of a verdict that are used, and most characters of each."""

REQUEST_CHARACTERS = 20_000
RESULT_CHARACTERS = 60_000
BEFORE_CHARACTERS = 8_000
WORK_CHARACTERS = 40_000
OUTPUT_CHARACTERS = 1_000
"""Most characters that a verifier is shown of: the request, the result, the earlier conversation, all calls, one
output."""

VERDICT: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "passed": {"type": "boolean", "description": "Whether the result is good as it stands."},
        "points": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "What must change, one point each, the most important first; empty when it passes.",
        },
    },
    "required": ["passed", "points"],
    "additionalProperties": False,
}
"""The JSON Schema of a verifier's result."""

VERDICT_RULES = (
    Rule(cel="result.passed || size(result.points) > 0", message="A result that does not pass needs a point to mend."),
)


def as_verifier(definition: AgentDefinition) -> AgentDefinition:
    """The same agent as a verifier, whose only result is a verdict."""
    return definition.model_copy(update={"result": VERDICT, "rules": VERDICT_RULES, "verify": None})


@dataclass(frozen=True, slots=True)
class JudgedWork:
    """What a verifier judges. `request`: the request and people's messages beside it; `result`: text or JSON;
    `messages`: those of the run; `before`: the conversation before the request.
    """

    request: Sequence[str]
    result: str
    messages: Sequence[Message]
    before: Sequence[Message] = ()

    def asked(self, rubric: str, seed: str) -> str:
        """The prompt for a verifier. Everything except the rubric is fenced as untrusted."""
        parts = (
            ("The rubric", rubric),
            (
                "The conversation before",
                fenced(_last_fitting(_conversation_shown(self.before), BEFORE_CHARACTERS), f"{seed} before"),
            ),
            ("The request", fenced(cut("\n\n".join(self.request), REQUEST_CHARACTERS), f"{seed} request")),
            ("The result", fenced(cut(self.result, RESULT_CHARACTERS), f"{seed} result")),
            (
                "What the agent did for it",
                fenced(_last_fitting(_calls_shown(self.messages), WORK_CHARACTERS), f"{seed} work"),
            ),
        )
        said = "".join(f"\n\n# {title}\n\n{text}" for title, text in parts if text)
        return f"{_BY_RUBRIC if rubric else _BY_ITSELF}{said}"


_BY_RUBRIC = "Judge the result of another agent by the rubric, and hand in your verdict."
_BY_ITSELF = "Judge whether the result of another agent does what the request asks for, and hand in your verdict."


def _conversation_shown(messages: Iterable[Message]) -> list[str]:
    said = [
        f"Person: {request_in(one.text)}" if isinstance(one, UserMessage) else f"Agent: {one.text}"
        for one in messages
        if isinstance(one, UserMessage | AssistantMessage) and one.text
    ]
    return [cut(text, BEFORE_CHARACTERS) for text in said]


def _calls_shown(messages: Iterable[Message]) -> list[str]:
    """One text per tool call: its arguments, and the beginning of its result."""
    arguments: dict[str, object] = {}
    lines: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            arguments.update((call.call_id, call.arguments) for call in message.tool_calls)
        elif isinstance(message, ToolResults):
            for result in message.results:
                how = "failed" if result.is_error else "ok"
                sent = cut(to_json(arguments.get(result.call_id)).decode(), OUTPUT_CHARACTERS)
                lines.append(f"{result.name} {sent}: {how}\n{cut(unfenced(result.content), OUTPUT_CHARACTERS)}")
    return lines


def _last_fitting(texts: Sequence[str], characters: int) -> str:
    """The last texts that fit into so many characters, and a note how many are left out."""
    kept: list[str] = []
    for text in reversed(texts):
        characters -= len(text)
        if characters < 0:
            break
        kept.append(text)
    missing = len(texts) - len(kept)
    return "\n\n".join(([f"[{missing:,} earlier ones are left out]"] if missing else []) + kept[::-1])


def points_of(result: object) -> tuple[bool, tuple[str, ...]]:
    """Whether the work passed, and what must change, from a verifier's result. Raises ValueError."""
    if not isinstance(result, Mapping) or not isinstance(result.get("passed"), bool):
        raise ValueError("it handed in no verdict")
    points = [point for point in result.get("points") or () if isinstance(point, str)]
    return result["passed"], few(points, POINTS, POINT_CHARACTERS)


def revision_message(points: Sequence[str], finish: str | None, seed: str) -> str:
    """The message to an agent whose work did not pass; `finish`: the tool that submits its result."""
    again = "give your whole answer again" if finish is None else f"hand the whole result in again with {finish}"
    listed = fenced("\n".join(f"- {point}" for point in points), seed)
    return (
        f"Not accepted yet. A verifier read your result and found that this must change:\n{listed}\n"
        f"Look into each point, mend what is true of it within your task and your rights, then {again}."
    )


TITLE = "Verification"

SPARE_SECONDS = 1.0
"""Part of an agent's wall clock that its verifier must leave, so that the agent can still end in time."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A verifier of agents' work. `name`: the agent that judges; `run`: runs a task of it to its end."""

    name: str
    run: Callable[[Task, Turn], Awaitable[Report]]
    terms: Verification


class Verifying:
    """The verification of one run. `finish`: the tool that submits the run's result, None without a gate."""

    def __init__(self, verifier: Verifier, turn: Turn, allowance: Allowance, finish: str | None) -> None:
        self._verifier = verifier
        self._turn = turn
        self._allowance = allowance
        self._state = allowance.state
        self._finish = finish

    @property
    def _record_id(self) -> str:
        """The verifier's record id: derived from run and round, so that a resumed run finds the one it had begun."""
        return verifier_record_id(self._state.origin.record_id or "", self._state.rounds)

    async def verdict(self, candidate: Report) -> VerifyChecked:
        """Run the verifier on the result; returns the verdict's entry. Raises `JournalError`, `Exhausted`."""
        state = self._state
        if (landing := state.spending.landing) is not None:
            return self._no_verdict(f"the limit {landing.limit} ({landing.allowed:.10g}) is reached")
        origin = state.origin
        task = Task(
            prompt=self._work(candidate).asked(self._verifier.terms.rubric or "", self._record_id),
            record_id=self._record_id,
            title=TITLE,
            parent_id=origin.record_id,
            depth=origin.depth + 1,
            waits=False,  # an unverified answer now is worth more than a verified one in a day
        )
        try:
            async with asyncio.timeout(self._seconds()) as scope:

                def keep_time(stands: bool) -> None:
                    """Stop the clock while the tree is idle, like the agent's own."""
                    if not scope.expired():
                        end = asyncio.get_running_loop().time() + self._seconds()
                        scope.reschedule(None if stands else end)

                with self._turn.idle.watched(keep_time):
                    report = await self._run(task)
        except TimeoutError:
            await self._turn.journal.close(RecordStatus.CANCELLED, "its time is up", under=task.record_id)
            return self._no_verdict("its time is up")
        return self._checked(report)

    def _seconds(self) -> float:
        return max(0.0, self._allowance.seconds_left() - SPARE_SECONDS)

    async def _run(self, task: Task) -> Report:
        turn = self._turn
        with turn.idle.waiting(task.parent_id):
            async with turn.slots.lent(task.parent_id), turn.slots.taken(task.record_id):
                report = await self._verifier.run(task, turn)
        turn.tree.records[task.record_id].conversation.transcript.clear()
        return report

    async def close_abandoned(self) -> None:
        """Close a verifier run that an earlier drone had begun on work that the agent now continues."""
        record = self._turn.tree.begun(self._record_id)
        if record is not None and record.finished is None:
            why = "the agent went on with its work before there was a verdict"
            await self._turn.journal.close(RecordStatus.CANCELLED, why, under=self._record_id)

    def _work(self, candidate: Report) -> JudgedWork:
        said = self._state.conversation
        transcript = said.transcript
        result = candidate.text if candidate.result is None else to_json(candidate.result).decode()
        return JudgedWork(
            (said.task, *said.messages_heard),
            result,
            transcript.said,
            transcript.opening[:-1],
        )

    def _checked(self, report: Report) -> VerifyChecked:
        try:
            if report.error is not None:
                raise ValueError(report.error)
            passed, points = points_of(report.result)
        except ValueError as why:
            return self._no_verdict(str(why), report)
        revision = self._state.judged.revisions
        again = not passed and revision < self._verifier.terms.max_revisions
        return VerifyChecked(
            verifier=self._verifier.name,
            verifier_id=report.record_id,
            revision=revision,
            passed=passed,
            points=points,
            message=revision_message(points, self._finish, report.record_id) if again else "",
            model=report.model,
            usage=report.usage,
        )

    def _no_verdict(self, error: str, report: Report | None = None) -> VerifyChecked:
        """The entry for a missing verdict: the result counts without one."""
        return VerifyChecked(
            verifier=self._verifier.name,
            verifier_id=report.record_id if report else None,
            revision=self._state.judged.revisions,
            passed=None,
            error=error,
            model=report.model if report else "",
            usage=report.usage if report else Usage(),
        )


def rejection(checked: VerifyChecked) -> str:
    """Why work is not accepted, as a sentence without its full stop."""
    tries = {0: "", 1: " after a revision"}.get(checked.revision, f" after {checked.revision} revisions")
    return f"the verifier {checked.verifier} did not accept the result{tries}: {checked.points[0]}".rstrip(".")
