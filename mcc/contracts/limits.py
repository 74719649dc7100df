"""Limits on what one turn, or one agent in it, may use."""

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from mcc.contracts.shape import Closed

TOKENS = ("input_tokens", "cached_input_tokens", "reasoning_tokens")
"""Token counts other than `output_tokens`, as `Limits` and `Usage` name them. Their limit is None when not set."""

MAX_DEPTH = 8
"""Highest `depth` that a caller may set."""

Count = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False, strict=True)]


class Limits(Closed):
    """Limits of a turn. Tokens are counted as the provider reports them.

    Each limit covers the whole agent tree, except `rounds` (the master alone) and `subagent_…` (each child alone).
    `warn_share`: once this share of a limit is used, the agent is told to finish. `unknown_price`: a call of
    a model without a known price is not sent (refuse), or it is, and people are told where `cost_usd` is limited.
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
    unknown_price: Literal["warn", "refuse"] = "warn"


SomeLimits = Annotated[Limits | None, PlainSerializer(lambda limits: limits and limits.model_dump(exclude_unset=True))]
"""Limits of which only those that were set are written."""


class AgentLimits(Closed):
    """Limits that a definition sets for its own agent. They can only lower the order's limits; None keeps those."""

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
    """`requested`: the limits in the agent's file (None = whatever the order allows); `effective`: those of its run."""

    requested: AgentLimits = AgentLimits()
    effective: AgentLimits = AgentLimits()
