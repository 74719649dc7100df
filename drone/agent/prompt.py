"""The system prompt: what an agent's file says, and after it what holds for the agent beside."""

from collections.abc import Sequence

from mcc.contracts.fence import EXPLAINED


def system_prompt(
    prompt: str, missing: Sequence[str], guidelines: Sequence[str], guidance: str, *, shows_fences: bool = False
) -> str:
    """The parts that are there, in an order that never changes, so that providers can cache it.

    `missing` are tools that the agent was to have; those that it has are told by their schemas alone. `guidance` is the
    gate's. `shows_fences`: what strangers may have written may be shown to the model.
    """
    listed = "".join(f"\n- {line}" for line in guidelines)
    lacking = f"Not available here: {', '.join(missing)}. Do without, and say so where it matters." if missing else ""
    explained = EXPLAINED if shows_fences else ""
    parts = (prompt, lacking, explained, f"Guidelines:{listed}" if listed else "", guidance)
    return "\n\n".join(part for part in parts if part)
