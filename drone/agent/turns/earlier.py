"""The earlier turns of a session whose agents a turn may continue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from drone.agent.state.tree import Tree
from mcc.contracts.shape import to_json
from mcc.transcript.shown import ShownMessage

MOST_ORDERS = 20
"""Most turns that are looked through for the agent that a model names."""


class EarlierJournals(Protocol):
    """Reads the journals of the session's ended turns."""

    async def tree(self, order_id: str) -> Tree | None:
        """The state of a turn according to its journal; None where that is not stored any more, or the turn was rolled
        back. Raises `JournalError`."""

    async def order_of(self, record_id: str) -> str | None:
        """The turn of this record, among those before this one that were not rolled back. Raises `JournalError`."""


@dataclass(frozen=True, slots=True)
class EarlierTurns:
    """The turns that this one is shown, and their journals."""

    shown: Sequence[ShownMessage]
    journals: EarlierJournals

    async def naming(self, record_id: str) -> Sequence[str]:
        """The orders of the turns in which this record is named, oldest first: that of the record is one of them, since
        its parent was told its id. Where a summary names it, which is of no turn, the record's own order. Raises
        `JournalError`."""
        # What stands in a fence may name any order's record: whose it is, the journal says.
        named = dict.fromkeys(shown.order_id for shown in self.shown if record_id in to_json(shown.form).decode())
        orders = [order_id for order_id in named if order_id][:MOST_ORDERS]
        if "" in named and (its_order := await self.journals.order_of(record_id)) is not None:
            return [its_order, *(order_id for order_id in orders if order_id != its_order)]
        return orders
