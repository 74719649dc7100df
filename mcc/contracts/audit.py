"""The audit: what was done about orders beside their journals, and who did it."""

from mcc.contracts.shape import Closed, JsonObject, Moment


class AuditNote(Closed):
    """One thing that was done. `kind` names it (`order.rolled_back`), `detail` says what belongs to it."""

    id: str
    at: Moment
    principal: str
    kind: str
    order_id: str | None = None
    detail: JsonObject
