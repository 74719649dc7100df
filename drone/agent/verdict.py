"""The verdict: what a verifier is asked about the work of another agent, what it answers, and what comes of that."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drone.agent.messages import AssistantMessage, Message, ToolResults, UserMessage
from drone.agent.opening import request_in
from mcc.contracts.fence import fenced, unfenced
from mcc.contracts.journal import VerifyChecked
from mcc.contracts.order import Rule
from mcc.contracts.shape import to_json
from mcc.rules.report import cut, few

POINTS = 10
POINT_CHARACTERS = 1_000
"""Points of a verdict that count, and the characters of each."""

REQUEST_CHARACTERS = 20_000
RESULT_CHARACTERS = 60_000
BEFORE_CHARACTERS = 8_000
WORK_CHARACTERS = 40_000
OUTPUT_CHARACTERS = 1_000
"""The most that a verifier is shown: of the request, the result, the conversation before, all calls, one output."""

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
"""The JSON Schema of what a verifier hands in."""

VERDICT_RULES = (
    Rule(cel="result.passed || size(result.points) > 0", message="A result that does not pass needs a point to mend."),
)


@dataclass(slots=True)
class Judged:
    """What became of the work of one run. `checked` is the verdict on it, as long as nothing came after that.

    `revisions`: how often it was sent back; `sent_back`: its words the last time.
    """

    checked: VerifyChecked | None = None
    revisions: int = 0
    sent_back: str = ""

    def apply(self, checked: VerifyChecked, text: str) -> None:
        self.checked = checked
        if checked.message:
            self.revisions, self.sent_back = self.revisions + 1, text


@dataclass(frozen=True, slots=True)
class Work:
    """What is judged: `request` with what people said beside it, `result` in words or as JSON, `messages` of the run.

    `before` is the conversation that went before the request.
    """

    request: Sequence[str]
    result: str
    messages: Sequence[Message]
    before: Sequence[Message] = ()

    def asked(self, rubric: str, seed: str) -> str:
        """The task of a verifier. All that others wrote stands within fences; the rubric speaks for itself."""
        parts = (
            ("The rubric", rubric),
            ("The conversation before", fenced(_last(_spoken(self.before), BEFORE_CHARACTERS), f"{seed} before")),
            ("The request", fenced(cut("\n\n".join(self.request), REQUEST_CHARACTERS), f"{seed} request")),
            ("The result", fenced(cut(self.result, RESULT_CHARACTERS), f"{seed} result")),
            ("What the agent did for it", fenced(_last(_done(self.messages), WORK_CHARACTERS), f"{seed} work")),
        )
        said = "".join(f"\n\n# {title}\n\n{text}" for title, text in parts if text)
        return f"{_BY_RUBRIC if rubric else _BY_ITSELF}{said}"


_BY_RUBRIC = "Judge the result of another agent by the rubric, and hand in your verdict."
_BY_ITSELF = "Judge whether the result of another agent does what the request asks for, and hand in your verdict."


def _spoken(messages: Iterable[Message]) -> list[str]:
    said = [
        f"Person: {request_in(one.text)}" if isinstance(one, UserMessage) else f"Agent: {one.text}"
        for one in messages
        if isinstance(one, UserMessage | AssistantMessage) and one.text
    ]
    return [cut(text, BEFORE_CHARACTERS) for text in said]


def _done(messages: Iterable[Message]) -> list[str]:
    """A line for each tool call, with the beginning of what it brought."""
    arguments: dict[str, object] = {}
    lines: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            arguments.update((call.call_id, call.arguments) for call in message.tool_calls)
        elif isinstance(message, ToolResults):
            for one in message.results:
                how = "failed" if one.is_error else "ok"
                given = cut(to_json(arguments.get(one.call_id)).decode(), OUTPUT_CHARACTERS)
                lines.append(f"{one.name} {given}: {how}\n{cut(unfenced(one.content), OUTPUT_CHARACTERS)}")
    return lines


def _last(texts: Sequence[str], characters: int) -> str:
    """The last of them that fit, and how many do not."""
    kept: list[str] = []
    for text in reversed(texts):
        characters -= len(text)
        if characters < 0:
            break
        kept.append(text)
    missing = len(texts) - len(kept)
    return "\n\n".join(([f"[{missing:,} before these are left out]"] if missing else []) + kept[::-1])


def points_of(result: object) -> tuple[bool, tuple[str, ...]]:
    """Whether it passed, and what is to be changed; `result` is what a verifier handed in. Raises ValueError."""
    if not isinstance(result, Mapping) or not isinstance(result.get("passed"), bool):
        raise ValueError("it handed in no verdict")
    points = [point for point in result.get("points") or () if isinstance(point, str)]
    return result["passed"], few(points, POINTS, POINT_CHARACTERS)


def sent_back(points: Sequence[str], finish: str | None, seed: str) -> str:
    """What an agent is told whose work did not pass; `finish` is the tool that hands its result in."""
    again = "give your whole answer again" if finish is None else f"hand the whole result in again with {finish}"
    listed = fenced("\n".join(f"- {point}" for point in points), seed)
    return (
        f"Not accepted yet. A verifier read your result and found that this must change:\n{listed}\n"
        f"Look into each point, mend what is true of it within your task and your rights, then {again}."
    )
