"""What can go wrong in a store, sorted by who must act.

StoreError
├── StoreUnavailable      try again: the database is away or locked
│   └── StoreFull         make room, then try again: the disk of the database is full
├── Fenced                stop: another epoch holds the order; write nothing more
├── ControlsPending       read the controls again, then finish
├── WorkspaceNeeded       look for the workspace of the order, then claim it with that
├── SomeRefused           leave out or mend those that it names, then place the others again
├── BadEntry              fail the order as internal: the database refuses what it wants to write
└── Refused               tell the caller
    ├── UnknownOrder, UnknownSession, UnknownDocument, UnknownBlueprint, BadCursor
    ├── IdempotencyConflict, SessionBusy, DocumentBusy, NotAConversation
    ├── OrderIsFinal, OrderIsUnfinished, ControlNotTaken
    ├── UnknownApproval, AlreadyDecided, ApprovalOver, CannotRemember, UnknownGrant
    ├── QueueFull
    ├── Pruned
    └── CannotFork
        └── ForkOfPruned
"""

from collections.abc import Mapping

from mcc.contracts.order import WorkOrder


class StoreError(Exception):
    """Anything that a store raises on purpose; the message is a sentence for people."""


class StoreUnavailable(StoreError):
    pass


class StoreFull(StoreUnavailable):
    pass


class Fenced(StoreError):
    pass


class ControlsPending(StoreError):
    pass


class WorkspaceNeeded(StoreError):
    """The order names a workspace. `begun`: it was claimed before."""

    def __init__(self, order: WorkOrder, *, begun: bool) -> None:
        super().__init__(f"order {order.id} names the workspace {order.workspace}")
        self.order = order
        self.begun = begun


class AnotherWorkspace(StoreError):
    """The order has begun in another directory than the one that it would be claimed with, whose key is `found`."""

    def __init__(self, order_id: str, found: str) -> None:
        super().__init__(f"order {order_id} has begun in another directory")
        self.found = found


class SomeRefused(StoreError):
    """Orders that should be placed together, and none of which was: what is wrong with each of these, by its index."""

    def __init__(self, refused: Mapping[int, Exception]) -> None:
        super().__init__(str(next(iter(refused.values()))))
        self.refused = refused


class BadEntry(StoreError):
    pass


class Refused(StoreError):
    pass


class UnknownOrder(Refused):
    pass


class UnknownSession(Refused):
    pass


class UnknownDocument(Refused):
    """There is none of this id, or it was deleted."""


class UnknownBlueprint(Refused):
    pass


class BadCursor(Refused):
    pass


class IdempotencyConflict(Refused):
    pass


class SessionBusy(Refused):
    pass


class DocumentBusy(Refused):
    """An order generates the document."""


class NotAConversation(Refused):
    """The session is that of a document, whose turns generate it."""


class UnknownApproval(Refused):
    """Nothing of this id waits for a decision."""


class UnknownNote(Refused):
    """There is no such note in this project."""


class TooManyNotes(Refused):
    """The project has as many notes of this kind as it may."""


class AlreadyDecided(Refused):
    """It was decided otherwise."""


class ApprovalOver(Refused):
    """Nobody waits for the decision any more."""


class CannotRemember(Refused):
    """Nothing of this approval can be let stand, or not for that."""


class UnknownGrant(Refused):
    """There is no such grant."""


class UnknownServerTool(Refused):
    """No drone has seen this MCP server, or no such tool of it."""


class OrderIsFinal(Refused):
    pass


class OrderIsUnfinished(Refused):
    pass


class ControlNotTaken(Refused):
    """When it was placed, such controls were not allowed of this order."""


class QueueFull(Refused):
    """So many orders are queued that no other is taken now."""


class Pruned(Refused):
    """The journal of this order was pruned; its record and its outcome are kept."""

    def __init__(self, order_id: str) -> None:
        super().__init__(f"the journal of order {order_id} was pruned; its record and its outcome are kept")
        self.order_id = order_id


class CannotFork(Refused):
    pass


class CannotRevert(Refused):
    """There is nothing of the order that could be taken back."""


class ForkOfPruned(CannotFork):
    """What the fork would take over was pruned."""

    def __init__(self, order_id: str) -> None:
        super().__init__(
            f"the journal of order {order_id} was pruned, so nothing can be taken over from it: retry it, which begins "
            "anew with the same input"
        )
