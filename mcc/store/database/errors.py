"""Errors of the store, grouped by who has to act.

StoreError
├── StoreUnavailable      try again: the database is unreachable or locked
│   ├── StoreFull         free disk space, then try again: the disk of the database is full
│   └── Unfit             change the server or the settings: the database lacks what MCC needs
├── StoreFenced           stop: another epoch holds the order; write nothing more
├── ControlsPending       read the controls again, then finish
├── WorkspaceNeeded       find the order's workspace, then claim the order with it
├── AnotherWorkspace      park the order: it began in a different directory
├── SomeRefused           leave out or correct the refused orders, then place the others again
├── BadEntry              fail the order as internal: the database refuses its data
└── StoreRefused          tell the caller
    ├── UnknownOrder, UnknownSession, UnknownDocument, UnknownBlueprint, BadCursor
    ├── IdempotencyConflict, SessionBusy, OrderOfOthers, DocumentBusy, NotAConversation
    ├── ContextIsFixed, SessionOfDocument, UnknownTurn, NothingToCompact, CannotRepeat
    ├── OrderIsFinal, OrderIsUnfinished, ControlNotTaken
    ├── UnknownApproval, AlreadyDecided, ItemChanged, ApprovalOver, CannotRemember, UnknownGrant
    ├── UnknownNote, TooManyNotes, UnknownServerTool
    ├── UnknownArtifact, CannotAttach, TooManyFiles
    ├── SpentLink, UnknownSignin, SpentCode, TooManyLogins, SpentLogout,
    │   DisabledPerson, PersonOfProvider
    ├── UnknownView, TooManyViews, UnknownDrone
    ├── UnknownSchedule, TooManySchedules, ScheduleNameTaken, ScheduleChanged
    ├── UnknownWebhook, TooManyWebhooks, WebhookNameTaken, WebhookIsBuiltIn, SecretsOverlap, WebhookIsOff
    ├── UnknownDelivery, DeliveryIsNotDead
    ├── QueueFull, BudgetUsedUp, TooManyControls
    ├── JournalPruned
    ├── NotRevertible, NotDeliverable
    └── CannotFork
        └── ForkOfPruned
"""

from collections.abc import Mapping

from mcc.contracts.budgets import BudgetOfDay
from mcc.contracts.order import WorkOrder


class StoreError(Exception):
    """Base of all errors that a store raises on purpose; the message is a sentence for people."""


class StoreUnavailable(StoreError):
    pass


class StoreFull(StoreUnavailable):
    pass


class Unfit(StoreUnavailable):
    """The database answers, and lacks something that the operator must give it; work waits until then."""


class StoreFenced(StoreError):
    pass


class ControlsPending(StoreError):
    pass


class WorkspaceNeeded(StoreError):
    """The order names a workspace, and the claim did not. `begun`: the order was claimed before."""

    def __init__(self, order: WorkOrder, *, begun: bool) -> None:
        super().__init__(f"order {order.id} names the workspace {order.workspace}")
        self.order = order
        self.begun = begun


class AnotherWorkspace(StoreError):
    """The claim names a directory, with the key `found`, that is not the one in which the order began."""

    def __init__(self, order_id: str, found: str) -> None:
        super().__init__(f"order {order_id} has begun in another directory")
        self.found = found


class SomeRefused(StoreError):
    """None of several orders was placed, because some were refused; `refused` has their errors, by index."""

    def __init__(self, refused: Mapping[int, Exception]) -> None:
        super().__init__(str(next(iter(refused.values()))))
        self.refused = refused


class BadEntry(StoreError):
    pass


class StoreRefused(StoreError):
    pass


class UnknownOrder(StoreRefused):
    pass


class UnknownSession(StoreRefused):
    pass


class UnknownDocument(StoreRefused):
    """There is no document with this id, or it was deleted."""


class UnknownBlueprint(StoreRefused):
    pass


class BadCursor(StoreRefused):
    pass


class IdempotencyConflict(StoreRefused):
    pass


class SessionBusy(StoreRefused):
    pass


class OrderOfOthers(StoreRefused):
    """To take the place of this order, or to steer it, needs the right `operate`, as somebody else placed it."""


class DocumentBusy(StoreRefused):
    """An unfinished order generates the document."""


class NotAConversation(StoreRefused):
    """The session belongs to a document: its turns generate the document, and cannot be chats."""


class ContextIsFixed(StoreRefused):
    """The session has turns, which fixed what later ones are shown of earlier ones."""


class SessionOfDocument(StoreRefused):
    """The session is kept as long as its document is."""


class UnknownTurn(StoreRefused):
    """The session has no turn of this number."""


class NothingToCompact(StoreRefused):
    """No turn of the session has ended since it was compacted."""


class CannotRepeat(StoreRefused):
    """The order is neither retried nor forked: what it does is asked for at the session."""


class UnknownApproval(StoreRefused):
    """There is no inbox item with this id for this kind of decision."""


class UnknownView(StoreRefused):
    pass


class UnknownDrone(StoreRefused):
    """No live drone has this name."""


class TooManyViews(StoreRefused):
    """The principal has as many saved views as are kept."""


class UnknownSchedule(StoreRefused):
    pass


class TooManySchedules(StoreRefused):
    """There are as many schedules as are kept."""


class ScheduleNameTaken(StoreRefused):
    """Another schedule has this name."""


class ScheduleChanged(StoreRefused):
    """Somebody else changed the schedule since it was read."""


class UnknownNote(StoreRefused):
    """There is no such note in this project."""


class TooManyNotes(StoreRefused):
    """The project has the maximum number of notes of this kind."""


class UnknownArtifact(StoreRefused):
    """There is no such file, or it is another principal's."""


class CannotAttach(StoreRefused):
    """The order names a file that it cannot be given."""


class TooManyFiles(StoreRefused):
    """The principal stores as much as may be stored without an order."""


class AlreadyDecided(StoreRefused):
    """The item was decided differently before."""


class ItemChanged(StoreRefused):
    """The item is not the one that was shown to whoever decides it."""


class SpentLink(StoreRefused):
    """The link signs nobody in: it was used, is too old, or never was."""


class UnknownSignin(StoreRefused):
    pass


class SpentLogout(StoreRefused):
    """A logout token of a provider of identities that was carried out before."""


class DisabledPerson(StoreRefused):
    """The provider vouches for somebody who is disabled here."""


class PersonOfProvider(StoreRefused):
    """A provider of identities decides this about its people."""


class UnknownPerson(StoreRefused):
    pass


class UnknownToken(StoreRefused):
    pass


class TooManyTokens(StoreRefused):
    pass


class SpentCode(StoreRefused):
    """No command line waits with this code: it was decided, is too old, or never was."""


class TooManyLogins(StoreRefused):
    pass


class ApprovalOver(StoreRefused):
    """The item expired, or its order or agent has ended."""


class CannotRemember(StoreRefused):
    """The approval cannot be remembered, or not in the requested scope."""


class UnknownGrant(StoreRefused):
    """There is no such grant."""


class UnknownWebhook(StoreRefused):
    """There is no such endpoint."""


class TooManyWebhooks(StoreRefused):
    """There are as many endpoints as may be."""


class WebhookNameTaken(StoreRefused):
    """Another endpoint has this name."""


class WebhookIsBuiltIn(StoreRefused):
    """The endpoint for the `webhook_url` of orders has neither another name nor another address."""


class SecretsOverlap(StoreRefused):
    """Two secrets sign already, so that there is no room for a third."""


class WebhookIsOff(StoreRefused):
    """Nothing is sent to the endpoint, so that it cannot be tested."""


class UnknownDelivery(StoreRefused):
    """There is no such delivery, or not any more."""


class DeliveryIsNotDead(StoreRefused):
    """The delivery is not given up, so that there is nothing to replay."""


class UnknownServerTool(StoreRefused):
    """No drone has seen this MCP server, or no such tool of it."""


class OrderIsFinal(StoreRefused):
    pass


class OrderIsUnfinished(StoreRefused):
    pass


class ControlNotTaken(StoreRefused):
    """The order was placed with a restriction that forbids this control."""


class TooManyControls(StoreRefused):
    """So many controls of an order are open that it takes no further one now."""


class QueueFull(StoreRefused):
    """The maximum number of orders is queued."""


class BudgetUsedUp(StoreRefused):
    """What is left of a day's budget is less than the order would reserve. `seconds`: until the next day's begins."""

    def __init__(self, sentence: str, left: BudgetOfDay, seconds: float) -> None:
        super().__init__(sentence)
        self.left = left
        self.seconds = seconds


class JournalPruned(StoreRefused):
    """The journal of this order was pruned; its record and its outcome are kept."""

    def __init__(self, order_id: str) -> None:
        super().__init__(f"the journal of order {order_id} was pruned; its record and its outcome are kept")
        self.order_id = order_id


class CannotFork(StoreRefused):
    pass


class NotRevertible(StoreRefused):
    """The order changed nothing that can be reverted, or not from the requested entry on."""


class NotDeliverable(StoreRefused):
    """The order did not work on a git address."""


class ForkOfPruned(CannotFork):
    """The journal that the fork would copy was pruned."""

    def __init__(self, order_id: str) -> None:
        super().__init__(
            f"the journal of order {order_id} was pruned, so nothing can be taken over from it: retry it, which begins "
            "anew with the same input"
        )
