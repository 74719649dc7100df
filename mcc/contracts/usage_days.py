"""What orders used, by day and by what they have in common."""

from datetime import date
from typing import Literal, TypeAlias

from mcc.contracts.shape import Closed, Moment
from mcc.contracts.usage import Tokens

UsageKind: TypeAlias = Literal["day", "person", "agent", "model", "label", "drone", "token"]
"""`day`: all orders together; `person`: the principal that placed the order; `token`: the id of the token by which it
came. An order has the model that its master began with, the drone that held it last, and may have several labels."""

MOST_DAYS = 400
MOST_KEYS = 200
"""Most days that are told at once, and most keys; what the others used is told as `OTHERS`."""

OTHERS = "…"


class UsageSum(Closed):
    """What orders used together. `orders`: how many have ended, of which some `succeeded`, some `failed`, and the rest
    were cancelled. `unpriced`: those of unknown cost, which `cost_usd` does not contain."""

    orders: int = 0
    succeeded: int = 0
    failed: int = 0
    unpriced: int = 0
    input_tokens: Tokens = 0
    cached_input_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    output_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    model_calls: Tokens = 0
    tool_calls: Tokens = 0
    cost_usd: float = 0.0


class UsageOfDay(UsageSum):
    """`key`: the agent, model, label, drone, principal or token, "" where an order has none; of the kind `day`, the
    day."""

    day: date
    key: str


class UsageReport(Closed):
    """What the orders used that ended from a day to another one (UTC), by day and key, the oldest day first.

    `since`: endings before this time were not counted; None: all were. `as_of`: up to when they are counted. `totals`:
    each order once, however many labels it has. `open`: what orders have used so far that have not ended, and what
    those used that are not counted yet; its `orders` are both together.
    """

    by: UsageKind
    since: Moment | None
    as_of: Moment
    days: tuple[UsageOfDay, ...]
    totals: UsageSum
    open: UsageSum
