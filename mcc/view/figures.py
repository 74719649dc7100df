"""Figures for people: seconds, tokens, dollars, bytes, and the reading that delegation saved a parent."""

from dataclasses import dataclass

from mcc.contracts.durations import ordinal as ordinal
from mcc.contracts.durations import seconds as seconds
from mcc.contracts.durations import wait as wait
from mcc.contracts.record import ChatRecord, ModelStep, ToolStep
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
    reported = sum(len(step.content) for step in record.steps if isinstance(step, ToolStep) and step.subagent_ids)
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
