"""`run_subagent`: one agent with a validation function as its gate."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from drone.agent.gates.gate import Evidence
from drone.agent.ports.journal import DeltaKind, MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.ports.report import Report
from drone.agent.turns.toolset import ToolSet
from drone.generation.document_gate import Check, DocumentGate
from drone.library import Agent, Tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blueprints import MAX_TURNS
from mcc.contracts.documents import RuleError
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.shape import unchecked

Problems: TypeAlias = "Iterable[RuleError | Mapping[str, object] | str] | None"
Validation: TypeAlias = "Callable[[], Problems | Awaitable[Problems]] | None"
"""Checks the live state and answers its problems: sentences, or `{node, field, rule, message}`; nothing where there are
none. It may be async; otherwise it is called in a thread and may block. None: everything is accepted."""

TOOL_CALLS = 10_000
OUTPUT_TOKENS = 2_000_000

Hear: TypeAlias = Callable[[Origin, DeltaKind, str], None]


class SubagentError(Exception):
    """The agent ended without a pass; the message says why, `report` has the details."""

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

    Beside `tools` it has `done` and `validate`: `done` ends it when `validation` finds no problem; otherwise the
    problems are the tool's result and the conversation continues. Answers the agent's summary, or its last reply.
    `hear` gets text while it streams. Raises `SubagentError`, and ValueError for a tool named like one of these two.
    """
    agent = Agent(
        AgentDefinition(name="subagent", prompt=preamble),
        model=model,
        tools=tools,
        # The caller limits the turns, so nothing else may end the work before them.
        limits=Limits(rounds=max_turns, tool_calls=TOOL_CALLS, output_tokens=OUTPUT_TOKENS),
        gate=DocumentGate("/", None if validation is None else gate_check(validation)),
    )
    report = await agent.run(task, agent.turn(MemoryJournal(fresh_id(), hear=hear)))
    if not report.completed:
        raise SubagentError(report)
    return report.text


def gate_check(validation: "Callable[[], Problems | Awaitable[Problems]]") -> Check:
    """A validation function as the check of a gate."""

    async def check(evidence: Evidence) -> tuple[RuleError, ...]:
        is_async = inspect.iscoroutinefunction(validation)
        found: Problems | Awaitable[Problems] = validation() if is_async else await evidence.threads.gate(validation)
        wrong = await found if inspect.isawaitable(found) else found
        return tuple(map(_error, (wrong,) if isinstance(wrong, str) else wrong or ()))

    return check


def _error(given: RuleError | Mapping[str, object] | str) -> RuleError:
    """A problem in any accepted form as an error."""
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
