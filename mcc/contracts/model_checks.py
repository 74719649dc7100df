"""What one call to a model showed: the request for such checks, and a row per model."""

from typing import Annotated, Literal

from pydantic import Field

from mcc.contracts.shape import Closed, Text
from mcc.contracts.usage import Usage

MOST_NAMES = 50
"""Models that one request may name: each of them costs a call."""

CHECK_SECONDS = 60.0
"""How long the one call of a model may take."""

CHECKS_AT_A_TIME = 8
SPARE_SECONDS = 5.0
"""For the way to the drone and back."""


def longest(count: int) -> float:
    """Seconds that a drone may take for so many models."""
    return -(-count // CHECKS_AT_A_TIME) * CHECK_SECONDS + SPARE_SECONDS


ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class ModelsToCheck(Closed):
    """Models to try, by alias or `provider/model`; without `names` all that live drones tell of."""

    names: Annotated[tuple[ModelName, ...], Field(max_length=MOST_NAMES)] = ()


class ModelCheck(Closed):
    """How one model answered one small question with one tool; what is None was not found out.

    `model` is `provider/model`, `problem` a sentence that says what is wrong and what to do, None = it answered.

    `key`: accepted, none (it answered without one), missing, refused, unknown. `context_tokens` is its window, and
    `window_from` who says so. `tools`: whether it called the tool; `streaming`: whether its reply came as a stream;
    `thinking`: whether it thought, with thinking set as it is for this model. `caching`: seen in the usage of this
    call, or priced, where the price list has a price for cached tokens.
    """

    name: str
    model: Text = ""
    drone: str = ""
    problem: Text | None = None
    key: Literal["accepted", "none", "missing", "refused", "unknown"] = "unknown"
    context_tokens: int | None = None
    window_from: Literal["configuration", "table", "server"] | None = None
    tools: bool | None = None
    streaming: bool | None = None
    thinking: bool | None = None
    caching: Literal["seen", "priced"] | None = None
    seconds: float | None = None
    first_token_ms: float | None = None
    usage: Usage | None = None
    notes: tuple[Text, ...] = ()
