"""The steps of an order's agents as lines for people: what was called with which arguments, and what came of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from mcc.contracts.attachments import GIVEN
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.fence import unfenced
from mcc.contracts.model_facts import ModelFellBack, ModelRetried
from mcc.contracts.record import (
    ChatRecord,
    GateStep,
    ModelStep,
    NoteStep,
    RecordStatus,
    SteerStep,
    Step,
    ToolStep,
    VerifyStep,
)
from mcc.view import figures
from mcc.view.lines import by_name, control_in_brief, delivered_in_brief, gate_in_brief, verdict_in_brief
from mcc.view.output import clean, exact_line, one_line

INDENT = "       "
_TROUBLE = frozenset({ModelRetried.kind, ModelFellBack.kind})
_ENDED_WELL = frozenset({RecordStatus.COMPLETED, RecordStatus.RUNNING, RecordStatus.WAITING})


@dataclass(frozen=True, slots=True)
class AgentOfStep:
    """A step with the agent that took it, and that agent's display name."""

    record: ChatRecord
    name: str
    step: Step

    @property
    def failed(self) -> bool:
        match self.step:
            case ToolStep():
                return self.step.is_error or bool(self.step.exit_code)
            case GateStep():
                return not self.step.ok
            case VerifyStep():
                return not self.step.passed
            case NoteStep():
                return self.step.name in _TROUBLE
        return False


def steps_of(record: ChatRecord, agent: str | None = None) -> list[AgentOfStep]:
    """The steps of all agents of the tree in the order in which they ended, or those of one of them, by its record's id
    or display name."""
    named = by_name(record)
    wanted = {name: run for name, run in named.items() if agent in (None, name, run.id)}
    steps = [AgentOfStep(run, name, step) for name, run in wanted.items() for step in run.steps]
    return sorted(steps, key=lambda taken: taken.step.seq)


def log_lines(record: ChatRecord, agent: str | None = None, *, failed: bool = False) -> Iterator[tuple[str, str]]:
    """The log of these steps, each line with the style it is shown in; `clean`. `failed`: only steps that failed, and
    agents that ended otherwise than well."""
    names = {run.id: name for name, run in by_name(record).items()}
    for taken in steps_of(record, agent):
        if taken.failed or not failed:
            yield from _lines(taken, names)
    for name, run in by_name(record).items():
        if agent in (None, name, run.id) and not (failed and run.status in _ENDED_WELL):
            yield _end(name, run)


def at_work(record: ChatRecord) -> Iterator[str]:
    """The subagents that have not ended, one text each: display name, title, and whether their parents go on
    meanwhile."""
    named = by_name(record)
    calls = (step for agent in named.values() for step in agent.steps if isinstance(step, ToolStep))
    background = {id for call in calls for id in call.background}
    for name, agent in named.items():
        if agent is not record and agent.status in (RecordStatus.RUNNING, RecordStatus.WAITING):
            title = f": {one_line(agent.title, 60)}" if agent.title else ""
            yield f"{exact_line(name)}{title}{', in the background' if agent.id in background else ''}"


def attached_in(record: ChatRecord | None, count: int) -> str | None:
    """The names of the files that the order was given, once its agent has begun; before, how many there are; None: it
    was given none."""
    steps = () if record is None else record.steps
    told = next((step.message for step in steps if isinstance(step, NoteStep) and step.name == GIVEN), "")
    if names := told.partition(": ")[2].removesuffix("."):
        return one_line(names, 300)
    return None if count == 0 else "a file" if count == 1 else f"{count} files"


def _end(name: str, record: ChatRecord) -> tuple[str, str]:
    why = f": {record.error}" if record.error else ""
    style = "bold green" if record.status is RecordStatus.COMPLETED else "bold yellow"
    spent = figures.spent(record.usage)
    return style, f"{exact_line(name)} {record.status.value}{clean(_flat(why))}  {spent}"


def _lines(taken: AgentOfStep, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    step = taken.step
    match step:
        case ModelStep():
            calls = ", ".join(dict.fromkeys(call.name for call in step.tool_calls))
            does = f"calls {calls}" if calls else "replies"
            spent = f"{figures.seconds(step.seconds)} · {figures.spent(step.usage)} · {step.model}"
            yield _head(taken, f"{does}  {spent}", "bold cyan", step.started_at)
            yield from _block(step.thinking, "dim italic")
            yield from _block(step.text, "")
        case ToolStep():
            how = "failed" if step.is_error else f"exit {step.exit_code}" if step.exit_code else ""
            style = "bold red" if taken.failed else "bold"
            yield _head(
                taken, f"{step.name} {how}".rstrip() + f"  {figures.seconds(step.seconds)}", style, step.started_at
            )
            yield from _arguments(step)
            yield from _block(unfenced(step.content), "red" if step.is_error else "dim", "│ ")
            if step.artifact is not None:
                yield "dim", f"{INDENT}[the whole is artifact {step.artifact[:16]} of the order]"
        case GateStep():
            yield _head(taken, gate_in_brief(step), "yellow" if taken.failed else "green", None)
        case VerifyStep():
            yield _head(taken, verdict_in_brief(step), "yellow" if taken.failed else "green", None)
        case SteerStep():
            carried = any(isinstance(later, ModelStep) and later.seq > step.seq for later in taken.record.steps)
            yield _head(taken, control_in_brief(step, carried=carried), "magenta", None)
        case NoteStep():
            told = delivered_in_brief(step.message, names) if step.name == AgentDelivered.kind else step.message
            yield _head(taken, told, "yellow" if taken.failed else "dim", step.at)
        case _:
            assert_never(step)


def _head(taken: AgentOfStep, what: str, style: str, at: datetime | None) -> tuple[str, str]:
    clock = f"{at.astimezone():%H:%M:%S}" if at is not None else " " * 8
    return style, f"{taken.step.seq:>5}  {clock}  {exact_line(taken.name)}  {clean(_flat(what))}"


def _arguments(step: ToolStep) -> Iterator[tuple[str, str]]:
    if isinstance(step.arguments, str):
        yield from _block(step.arguments, "")
        return
    for name, value in step.arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            yield "", f"{INDENT}{one_line(name, 80)}:"
            yield from _block(text, "", "    ")
        else:
            yield "", f"{INDENT}{one_line(name, 80)}: {exact_line(text)}"


def _block(text: str, style: str, mark: str = "") -> Iterator[tuple[str, str]]:
    """A text's lines, indented so that none of them looks like a step."""
    if text.strip():
        for line in clean(text).rstrip("\n").split("\n"):
            yield style, f"{INDENT}{mark}{line}"


def _flat(text: str) -> str:
    return " ".join(text.split("\n"))
