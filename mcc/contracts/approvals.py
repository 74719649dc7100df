"""The inbox: what waits for a person, and how it is decided; approvals that a person let stand."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, RootModel, StringConstraints

from mcc.contracts.inbox_facts import Decision as Decision
from mcc.contracts.inbox_facts import Remember, ShownPreview
from mcc.contracts.permission import Effects, SavedRule, Why
from mcc.contracts.shape import Closed, JsonObject, Moment, Text

ItemStatus: TypeAlias = Literal["pending", "approved", "denied", "used", "expired", "void", "answered"]
"""`used`: the approved call has begun; `expired`: nobody decided in time; `void`: its agent, or its order, ended before
it counted. `answered` is a question's, which is neither approved nor denied."""

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "used", "expired", "void"]
QuestionStatus: TypeAlias = Literal["pending", "answered", "expired", "void"]

ANSWER_CHARACTERS = 20_000
NOTE_CHARACTERS = 2_000


class Item(Closed):
    """Something that an agent asks people. `expires_at` None: it waits for as long as it takes."""

    id: str
    order_id: str
    record_id: str | None
    agent: str | None
    depth: int
    by: Text | None = None
    requested_at: Moment
    expires_at: Moment | None = None
    decided_at: Moment | None = None


class ApprovalItem(Item):
    """A tool call that runs when it is approved, and once. `digest` is over all that it would do.

    `why` is what asks for the approval; `would_save` what `remember` would let stand, None: nothing can be remembered.
    `again` says what differs from the approval that the call had before; `used_seq` is the entry with which it began.
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
    """The outline of a document that waits: its order goes on with the structure as it is, or ends.

    `digest` is over the structure as it was when it was asked for.
    """

    kind: Literal["outline"] = "outline"
    document_id: str
    digest: str
    status: ApprovalStatus
    decision: Decision | None = None
    note: Text | None = None


class QuestionItem(Item):
    """A question to a person. At `expires_at` `default` is the answer; without one the call that asks is an error."""

    kind: Literal["question"] = "question"
    call_id: str
    question: Text
    choices: tuple[Text, ...] = ()
    default: Text | None = None
    status: QuestionStatus
    answer: Text | None = None


AnyItem: TypeAlias = Annotated[ApprovalItem | OutlineItem | QuestionItem, Field(discriminator="kind")]
AnyApproval: TypeAlias = Annotated[ApprovalItem | OutlineItem, Field(discriminator="kind")]


class ItemByKind(RootModel[Any]):
    """An item of the inbox; its `kind` says which of them it is."""

    model_config = ConfigDict(defer_build=True)
    root: AnyItem


class NewDecision(Closed):
    """`remember`: calls like this one need no approval from now on; what is saved is the item's `would_save`."""

    decision: Decision
    note: Annotated[str, StringConstraints(max_length=NOTE_CHARACTERS)] | None = None
    remember: Remember | None = None


class NewAnswer(Closed):
    """The answer to a question: one of its choices where it has some, or any other text."""

    answer: Annotated[str, StringConstraints(min_length=1, max_length=ANSWER_CHARACTERS)]


class Grant(SavedRule):
    """An approval that a person let stand: it makes an `ask` of the calls that it fits an `allow`, never a deny.

    `scope_id` is the order, the session, or the key of the workspace that it is for; `approval_id` where it comes from.
    """

    id: str
    scope: Remember
    scope_id: str
    workspace: Text | None = None
    by: Text
    approval_id: str
    created_at: Moment
