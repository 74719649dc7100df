"""Receipts: what the tools of a run really did, as its gate's rules may ask for it."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from drone.agent.artifacts import READ_ARTIFACT
from drone.agent.messages import AssistantMessage, Message, ToolResults, ToolSpec
from drone.agent.reads import READERS
from mcc.contracts.blocks import ToolCall
from mcc.contracts.journal import Outcome, ToolFinished


@dataclass(frozen=True, slots=True)
class Receipt:
    """One finished call.

    `paths` are what its arguments `path` or `paths` name, without `./` and the like; `path` is the first of them, None
    when there is none. `content` is what a tool that shows files brought; `artifact` names the whole of it where it is
    only a part.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, object]
    ok: bool
    outcome: str
    paths: tuple[str, ...] = ()
    content: str = field(default="", compare=False, repr=False)
    artifact: str | None = field(default=None, compare=False)

    @property
    def path(self) -> str | None:
        return self.paths[0] if self.paths else None

    @classmethod
    def of(cls, call: ToolCall, done: ToolFinished) -> "Receipt":
        given = call.arguments if isinstance(call.arguments, Mapping) else {}
        listed = given.get("paths")
        named = (given.get("path"), *(listed if isinstance(listed, list | tuple) else ()))
        return cls(
            call_id=call.call_id,
            tool=call.name,
            arguments=given,
            ok=not done.is_error,
            outcome=done.outcome.value,
            paths=tuple(posixpath.normpath(path) for path in named if isinstance(path, str) and path),
            content=done.content if call.name in READERS and not done.is_error else "",
            artifact=done.artifact,
        )


def reading(specs: Iterable[ToolSpec]) -> frozenset[str]:
    """The names of those tools that look at something: what an agent could have tried before it says it is blocked."""
    return frozenset(spec.name for spec in specs if spec.group.endswith("_read") and spec.name != READ_ARTIFACT)


def recalled(messages: Iterable[Message]) -> Iterator[Receipt]:
    """The receipts of a conversation that goes on: what it did before still counts as done."""
    asked: dict[str, ToolCall] = {}
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls):
                asked.update((call.call_id, call) for call in calls)
            case ToolResults(results):
                for one in results:
                    if call := asked.get(one.call_id):
                        outcome = Outcome.ERROR if one.is_error else Outcome.OK
                        yield Receipt.of(
                            call,
                            ToolFinished(
                                call_id=one.call_id,
                                name=one.name,
                                content=one.content,
                                is_error=one.is_error,
                                outcome=outcome,
                            ),
                        )
