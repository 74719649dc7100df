"""What waits for a person's yes or no, and how it is decided."""

from typing import Annotated, Literal, TypeAlias

from pydantic import StringConstraints

from mcc.contracts.shape import Closed, Moment, Text

ItemStatus: TypeAlias = Literal["pending", "approved", "denied", "void"]
"""`void`: its order ended before anybody decided."""

Decision: TypeAlias = Literal["approve", "deny"]


class OutlineItem(Closed):
    """The outline of a document that waits: its order goes on with the structure as it is, or ends.

    `digest` is over the structure as it was when it was asked for. `expires_at` None: it waits for as long as it takes.
    """

    id: str
    kind: Literal["outline"] = "outline"
    order_id: str
    record_id: str | None
    agent: str | None
    depth: int
    document_id: str
    digest: str
    status: ItemStatus
    decision: Decision | None = None
    by: Text | None = None
    note: Text | None = None
    requested_at: Moment
    expires_at: Moment | None = None
    decided_at: Moment | None = None


class NewDecision(Closed):
    decision: Decision
    note: Annotated[str, StringConstraints(max_length=2_000)] | None = None
