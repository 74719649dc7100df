"""One gated agent by itself: instructions, tools, a check of the live state, a task; its last words, or why not."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from drone.agent.gate import Evidence
from drone.agent.journal import DeltaKind, MemoryJournal
from drone.agent.model import Model
from drone.agent.report import Report
from drone.agent.toolset import ToolSet
from drone.generation.document_gate import Check, DocumentGate
from drone.library import Agent, Tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blueprints import MAX_TURNS
from mcc.contracts.documents import RuleError
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.shape import unchecked

Wrong: TypeAlias = "Iterable[RuleError | Mapping[str, object] | str] | None"
Validation: TypeAlias = "Callable[[], Wrong | Awaitable[Wrong]] | None"
"""Looks at the live state and answers all that is wrong with it: sentences, or `{node, field, rule, message}`; nothing
where all is well. It may block, and is called in a thread then unless it is async. None: everything is well."""

TOOL_CALLS = 10_000
OUTPUT_TOKENS = 2_000_000

Hear: TypeAlias = Callable[[Origin, DeltaKind, str], None]


class SubagentError(Exception):
    """The agent ended without having passed; `report` says how, the message why."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.error or "The agent has not done its work.")
        self.report = report


async def run_subagent(
    model: Model,
    preamble: str,
    tools: ToolSet | Iterable[Tool] | None,
    validation: Validation,
    task: str,
    max_turns: int = MAX_TURNS,
    *,
    hear: Hear | None = None,
) -> str:
    """Let an agent work on `task` until its `done` passes, within `max_turns` replies of its model.

    It has `tools`, and `done` and `validate` beside them: `done` ends it when `validation` finds nothing wrong, else
    the errors are its result and the same conversation goes on. Answers its summary, or its last words. `hear` is told
    text on its way. Raises `SubagentError`, and ValueError for a tool that is called like one of these two.
    """
    agent = Agent(
        AgentDefinition(name="subagent", prompt=preamble),
        model=model,
        tools=tools,
        limits=Limits(rounds=max_turns, tool_calls=TOOL_CALLS, output_tokens=OUTPUT_TOKENS),
        gate=DocumentGate("/", None if validation is None else checked_by(validation)),
    )
    report = await agent.run(task, agent.turn(MemoryJournal(fresh_id(), hear=hear)))
    if not report.completed:
        raise SubagentError(report)
    return report.text


def checked_by(validation: "Callable[[], Wrong | Awaitable[Wrong]]") -> Check:
    """As the check of a gate."""

    async def check(evidence: Evidence) -> tuple[RuleError, ...]:
        own = inspect.iscoroutinefunction(validation)
        found: Wrong | Awaitable[Wrong] = validation() if own else await evidence.threads.gate(validation)
        wrong = await found if inspect.isawaitable(found) else found
        return tuple(map(_error, (wrong,) if isinstance(wrong, str) else wrong or ()))

    return check


def _error(given: RuleError | Mapping[str, object] | str) -> RuleError:
    """In whatever words a program of somebody else's has put it."""
    if isinstance(given, RuleError):
        return given
    fields: Mapping[str, object] = {"message": given} if isinstance(given, str) else given
    field = fields.get("field")
    return unchecked(
        RuleError,
        node=str(fields.get("node") or "/"),
        field=None if field is None else str(field),
        rule=str(fields.get("rule") or ""),
        message=str(fields.get("message") or "This does not hold."),
    )
