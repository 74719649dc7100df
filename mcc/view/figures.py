"""Figures for people: seconds, tokens, dollars, bytes, and the reading that delegation saved a parent."""

from dataclasses import dataclass

from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.durations import ordinal as ordinal
from mcc.contracts.durations import seconds as seconds
from mcc.contracts.durations import wait as wait
from mcc.contracts.record import ChatRecord, ModelStep, NoteStep, ToolStep
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage

CHARACTERS_PER_TOKEN = 4
"""A rough figure for English text and code; used only for figures shown to people."""


def tokens(usage: Usage) -> str:
    """Total tokens, and the percentage of input tokens that came from the provider's cache."""
    cached = 100 * usage.cached_input_tokens // max(1, usage.input_tokens)
    return f"{usage.total_tokens:,} tokens" + (f" ({cached} % cached)" if cached else "")


def cost(usage: Usage) -> str:
    """Cost in US dollars; "cost unknown" when the price of any part is unknown."""
    if usage.cost_usd is None:
        return "cost unknown"
    return f"${usage.cost_usd:.4f}" if usage.cost_usd else "$0"


def spent(usage: Usage) -> str:
    """Tokens and cost; "no tokens" where models were called that count none."""
    if not usage.total_tokens and not usage.cost_usd and usage.model_calls:
        return "no tokens"
    return f"{tokens(usage)} · {cost(usage)}"


def brief_seconds(value: float, *, whole: bool = False) -> str:
    """At most 8 columns up to 1,000 hours. `whole`: of what still runs, without tenths, so that it changes once a
    second."""
    if value < 59.95:
        return f"{int(max(value, 0))} s" if whole else f"{max(value, 0):.1f} s"
    minutes, rest = divmod(int(value) if whole else round(value), 60)
    return f"{minutes // 60:,}h {minutes % 60:02}m" if minutes >= 60 else f"{minutes}m {rest:02}s"


def brief_tokens(value: int) -> str:
    """At most 5 columns up to a million millions."""
    size, units = float(value), iter(("", "k", "M", "G", "T"))
    unit = next(units)
    while size >= 999.5 and unit != "T":
        size, unit = size / 1000, next(units)
    return f"{size:.1f}{unit}" if unit and size < 99.95 else f"{size:.0f}{unit}"


def brief_cost(usage: Usage) -> str:
    """At most 8 columns up to 10,000 dollars."""
    if usage.cost_usd is None:
        return "unknown"
    if not usage.cost_usd:
        return "$0"
    return f"${usage.cost_usd:.4f}" if usage.cost_usd < 1 else f"${usage.cost_usd:,.2f}"


def bytes_(value: int) -> str:
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


@dataclass(frozen=True, slots=True)
class Savings:
    """In characters: `worked` is all that children wrote, called tools with and read; `reported` what parents got."""

    worked: int = 0
    reported: int = 0

    @property
    def tokens(self) -> int:
        """About how many tokens parents were spared, see CHARACTERS_PER_TOKEN."""
        return max(0, self.worked - self.reported) // CHARACTERS_PER_TOKEN

    @property
    def share(self) -> float:
        """The fraction of the children's work that parents were spared, 0 to 1."""
        return max(0.0, 1 - self.reported / self.worked) if self.worked else 0.0

    def plus(self, other: "Savings") -> "Savings":
        return Savings(self.worked + other.worked, self.reported + other.reported)


def saved_by_delegation(record: ChatRecord) -> Savings:
    """The savings of all delegations in the tree under `record`."""
    reported = 0
    for step in record.steps:
        if isinstance(step, ToolStep) and (step.subagent_ids or step.background or step.delivered):
            reported += len(step.content)
        elif isinstance(step, NoteStep) and step.name == AgentDelivered.kind:  # a report that came later
            reported += step.characters
    total = Savings(sum(_worked(child) for child in record.subagent_history), reported)
    for child in record.subagent_history:
        total = total.plus(saved_by_delegation(child))
    return total


def _worked(record: ChatRecord) -> int:
    """Characters of a transcript without its task, which the parent wrote."""
    worked = 0
    for step in record.steps:
        if isinstance(step, ModelStep):
            worked += len(step.text) + sum(len(to_json(call.arguments)) for call in step.tool_calls)
        elif isinstance(step, ToolStep):
            worked += len(step.content)
    return worked
