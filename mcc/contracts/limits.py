"""Limits: what one turn, or one agent of it, may use."""

from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed

TOKENS = ("input_tokens", "cached_input_tokens", "reasoning_tokens")
"""Kinds of tokens beside those written, as limits and usage call them. Without a limit their limit is None."""

MAX_DEPTH = 8
"""Deepest tree that anyone may ask for."""

Count = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False, strict=True)]


class Limits(Closed):
    """Limits of a turn; tokens are the provider's.

    Counts are of the whole tree, but for `rounds` (the master's own) and `subagent_…` (one child's). `warn_share`: the
    part of a limit from which on an agent is told to finish.
    """

    rounds: Positive = 50
    parallel_tool_calls: Positive = 16
    subagent_rounds: Positive = 24
    tool_calls: Count = 200
    output_tokens: Positive = 200_000
    subagent_output_tokens: Positive = 20_000
    input_tokens: Positive | None = None
    cached_input_tokens: Positive | None = None
    reasoning_tokens: Positive | None = None
    total_tokens: Positive | None = None
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] | None = None
    wall_seconds: Seconds = 3_600
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH, strict=True)] = 3
    subagents_per_call: Positive = 5
    spawns: Count = 50
    concurrency: Positive = 3
    model_call_seconds: Seconds = 180
    tool_seconds: Seconds = 120
    warn_share: Annotated[float, Field(gt=0, le=1, strict=True)] = 0.7


class AgentLimits(Closed):
    """Limits that a definition sets for its own agent; None leaves the order's, which they can only lower."""

    rounds: Positive | None = None
    output_tokens: Positive | None = None
    input_tokens: Positive | None = None
    cached_input_tokens: Positive | None = None
    reasoning_tokens: Positive | None = None
    tool_calls: Count | None = None
    tool_seconds: Annotated[float, Field(gt=0)] | None = None
    model_call_seconds: Annotated[float, Field(gt=0)] | None = None
    wall_seconds: Annotated[float, Field(gt=0)] | None = None


class LimitChoice(Closed):
    """What an agent's file asks for (None = whatever the order allows), and what its run really has."""

    requested: AgentLimits = AgentLimits()
    effective: AgentLimits = AgentLimits()
