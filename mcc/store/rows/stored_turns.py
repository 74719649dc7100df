"""What an ended turn leaves to its session: its own messages, and a whole context through it."""

import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mcc.contracts.shape import to_json
from mcc.contracts.turn_context import LastRequest


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """What an ended turn adds to its session. `messages`: its own messages as JSON. `found`: deferred tools that its
    agent searched for; `last`: its last request."""

    order_id: str
    session_id: str
    session_seq: int
    messages: bytes = field(repr=False)
    tokens: int
    setup_digest: str = ""
    setup_key: str = ""
    found: tuple[str, ...] = ()
    last: LastRequest | None = None

    def row(self) -> dict[str, Any]:
        return {
            "order_id": self.order_id,
            "session_id": self.session_id,
            "session_seq": self.session_seq,
            "data": zlib.compress(self.messages),
            "tokens": self.tokens,
            "setup_digest": self.setup_digest,
            "setup_key": self.setup_key,
            "found_json": json.dumps(self.found),
            "last_json": None if self.last is None else to_json(self.last).decode(),
        }


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """A session is to be compacted at `due`, for a model that takes in `window` tokens, unless somebody speaks in it
    before. `tokens`: about what its next turn is shown."""

    due: datetime
    window: int
    tokens: int


@dataclass(frozen=True, slots=True)
class NewBase:
    """All that a session is shown through this turn, as JSON. `reason`: "summary", "handles" (older turns are lines),
    "clip" (older results were shortened), "results" (they were put away between two turns), "fork" or "rollup".
    `turns`: the orders of which it shows something. `over`: the base that it was made of. `session_id`, `through_seq`:
    where it is not that of the turn that made it: an order that compacts the session made it; or it is what a fork has
    from its source, through turn 0.
    """

    text: str = field(repr=False)
    reason: str
    turns: tuple[str, ...]
    over: str | None = None
    session_id: str | None = None
    through_seq: int = 0
