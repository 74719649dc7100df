"""The system prompt: what an agent's file says, and after it what the agent really has."""

from collections.abc import Iterable, Mapping, Sequence

from drone.agent.messages import ToolSpec
from mcc.contracts.fence import EXPLAINED
from mcc.rules.patterns import Pattern

_END = Pattern(r"[.!?]\s")
_CHARACTERS = 160


def system_prompt(
    prompt: str, inventory: str, guidelines: Sequence[str], guidance: str, *, shows_fences: bool = False
) -> str:
    """The parts that are there, in an order that never changes, so that providers can cache it.

    `guidance` is the gate's. `shows_fences`: what strangers may have written may be shown to the model.
    """
    listed = "".join(f"\n- {line}" for line in guidelines)
    explained = EXPLAINED if shows_fences else ""
    parts = (prompt, inventory, explained, f"Guidelines:{listed}" if listed else "", guidance)
    return "\n\n".join(part for part in parts if part)


def inventory(tools: Iterable[ToolSpec], team: Mapping[str, str], missing: Sequence[str] = ()) -> str:
    """The agent's tools with a line each, the agents that it may delegate to, and what it was to have and has not."""
    parts = [_section("Your tools", {tool.name: tool.description for tool in tools}, "You have no tools.")]
    if team:
        parts.append(_section("Agents you may delegate to", team, ""))
    if missing:
        parts.append(f"Not available here: {', '.join(missing)}. Do without, and say so where it matters.")
    return "\n\n".join(parts)


def _section(title: str, lines: Mapping[str, str], empty: str) -> str:
    listed = "\n".join(f"- `{name}`: {_first_sentence(said)}".rstrip(": ") for name, said in lines.items())
    return f"# {title}\n\n{listed or empty}"


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    end = _END.search(paragraph)
    sentence = paragraph if end is None else paragraph[: end.start() + 1]
    return sentence if len(sentence) <= _CHARACTERS else f"{sentence[:_CHARACTERS].rstrip()}…"
