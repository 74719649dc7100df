"""The inbox: items that wait for a person, requests that decide or answer them, and standing approvals (grants)."""

from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Field, RootModel, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.inbox_facts import Decision, Remember, ShownPreview
from mcc.contracts.permission import Effects, SavedRule, Why
from mcc.contracts.questions import OneAnswer, OneQuestion
from mcc.contracts.shape import Closed, JsonObject, Moment, Text
from mcc.contracts.status import Reason

ItemStatus: TypeAlias = Literal["pending", "approved", "denied", "used", "expired", "void", "answered", "declined"]
"""`used`: the approved call has started; `expired`: nobody decided in time; `void`: the agent or order ended before the
decision took effect. Questions are `answered` or `declined` instead of approved or denied; an accepted note is
`approved`, a rejected one `denied`."""

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "used", "expired", "void"]
QuestionStatus: TypeAlias = Literal["pending", "answered", "declined", "expired", "void"]
NoteItemStatus: TypeAlias = Literal["pending", "approved", "denied", "void"]

NOTE_CHARACTERS = 2_000


ItemKind: TypeAlias = Literal["approval", "outline", "question", "note"]
OrderItemKind: TypeAlias = Literal["failed", "budget", "ready", "stuck"]
InboxKind: TypeAlias = ItemKind | OrderItemKind

ITEM_KINDS: frozenset[ItemKind] = frozenset(get_args(ItemKind))
ORDER_ITEM_KINDS: frozenset[OrderItemKind] = frozenset(get_args(OrderItemKind))

MOST_SEEN = 1_000
"""Most items that one request marks as seen."""


class Item(Closed):
    """Something that an agent asks people. `expires_at` None: it waits without a time limit.

    `title`: the beginning of its order's prompt; `owner`: the principal that placed the order, None = there is no
    order; `seen`: whether who asks has marked it as seen. Only lists of the inbox tell these three. `by`, `door`,
    `token`: who decided, which way it came, and the name of the token that it came by; `principal` is `by`.
    """

    id: str
    order_id: str
    record_id: str | None
    agent: str | None
    depth: int
    by: Text | None = None
    principal: str | None = None
    door: str | None = None
    token: Text | None = None
    requested_at: Moment
    expires_at: Moment | None = None
    decided_at: Moment | None = None
    title: Text = ""
    owner: str | None = None
    seen: bool = False


class ApprovalItem(Item):
    """A tool call that runs once if it is approved. `digest` covers everything that the call would do.

    `why` is the rule that requires the approval. `would_save` is the rule that `remember` would save, None: this
    approval cannot be remembered. `again` says what differs from an earlier approval of the same call. `used_seq` is
    the number of the entry with which the approved call started.
    """

    kind: Literal["approval"] = "approval"
    call_id: str
    tool: Text
    arguments: JsonObject
    effects: Effects | None
    profile: Text | None
    workspace: Text | None
    digest: str
    preview: ShownPreview | None
    why: Why | None
    again: Text | None
    would_save: SavedRule | None
    status: ApprovalStatus
    decision: Decision | None = None
    note: Text | None = None
    remember: Remember | None = None
    used_seq: int | None = None


class OutlineItem(Item):
    """A document outline that waits for approval. If approved, its order goes on with this structure; else it ends.

    `digest` covers the structure as it was when approval was requested.
    """

    kind: Literal["outline"] = "outline"
    document_id: str
    digest: str
    status: ApprovalStatus
    decision: Decision | None = None
    note: Text | None = None


class QuestionItem(Item):
    """Questions to a person, answered together. At `expires_at`, the defaults become the answers.

    `question`, `choices`, `default` and `answer` are those of the first one; `answer` is None where there are several.
    `answers`: how each of them ended, once it has.
    """

    kind: Literal["question"] = "question"
    call_id: str
    question: Text
    choices: tuple[Text, ...] = ()
    default: Text | None = None
    status: QuestionStatus
    answer: Text | None = None
    questions: tuple[OneQuestion, ...] = ()
    answers: tuple[OneAnswer, ...] = ()


class NoteItem(Item):
    """A version of a memory that agents of other sessions see only if it is accepted (`POST /notes/decide`).

    `tainted` as in `Note`; `deletes`: it takes the note away. `status` void: a later version took its place.
    """

    kind: Literal["note"] = "note"
    project: str
    workspace: Text | None
    name: str
    version: int
    text: Text
    tainted: bool
    deletes: bool
    status: NoteItemStatus


AnyItem: TypeAlias = Annotated[ApprovalItem | OutlineItem | QuestionItem | NoteItem, Field(discriminator="kind")]
AnyApproval: TypeAlias = Annotated[ApprovalItem | OutlineItem, Field(discriminator="kind")]


class OrderItem(Closed):
    """An order that a person should look at. `id` is `KIND:ORDER`.

    `failed`: it failed; `budget`: because its budget was exhausted; `ready`: it succeeded, and whoever placed it can be
    asked (`on_ask` wait); these three for 14 days, `at` their ends. `stuck`: it runs or waits and makes no progress, by
    the rule of `mcc doctor`; `at` is the time of its last entry. `title`, `owner`, `seen` as in other items.
    """

    id: str
    kind: OrderItemKind
    order_id: str
    agent: str | None = None
    reason: Reason | None = None
    detail: Text | None = None
    at: Moment
    title: Text = ""
    owner: str | None = None
    seen: bool = False


InboxItem: TypeAlias = Annotated[
    ApprovalItem | OutlineItem | QuestionItem | NoteItem | OrderItem, Field(discriminator="kind")
]
"""Whatever the inbox may list."""


class SeenItems(Closed):
    """Items of the inbox that are marked as seen: those with these `ids`, or all up to the time `before`."""

    ids: Annotated[tuple[Annotated[str, StringConstraints(max_length=200)], ...], Field(max_length=MOST_SEEN)] = ()
    before: Moment | None = None

    @model_validator(mode="after")
    def _either(self) -> "SeenItems":
        if bool(self.ids) == (self.before is not None):
            raise PydanticCustomError("one_of_both", "Input should have either ids or before")
        return self


class ItemByKind(RootModel[Any]):
    """Any inbox item, told apart by `kind`."""

    model_config = ConfigDict(defer_build=True)
    root: AnyItem


class NewDecision(Closed):
    """`remember`: save the item's `would_save` rule, so that later calls like it need no approval within that scope.

    `digest`: that of the item as it was shown. If the item has another one, nothing is decided. None: it is not
    compared.
    """

    decision: Decision
    note: Annotated[str, StringConstraints(max_length=NOTE_CHARACTERS)] | None = None
    remember: Remember | None = None
    digest: Annotated[str, StringConstraints(max_length=200)] | None = None


class LateAnswer(Closed):
    """What became of an answer whose question waits for nobody any more: a steer of its session's unfinished order
    `order_id`, or words that its session's next turn is shown above the prompt, which is `order_id` once it is placed.
    """

    became: Literal["steer", "next_turn"]
    order_id: str | None = None


class Grant(SavedRule):
    """A standing approval. It turns `ask` into `allow` for matching calls; it never overrides `deny`.

    `scope_id` is the id of the order or session, or the key of the workspace, where it is valid. `approval_id` names
    the approval that it was saved from. `by`, also as `principal`, `door`, `token`: who gave it, as an item says it.
    """

    id: str
    scope: Remember
    scope_id: str
    workspace: Text | None = None
    by: Text
    principal: str | None = None
    door: str | None = None
    token: Text | None = None
    approval_id: str
    created_at: Moment
