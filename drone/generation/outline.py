"""The outline: the structure of a document, approved by a person and held before the nodes' values are generated."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from drone.agent.control.idle_watch import Block
from drone.agent.turns.turn import Turn
from drone.generation.port import DocumentPort
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import OUTLINE, ApprovalDecided, ApprovalRequested
from mcc.contracts.shape import digest, now
from mcc.contracts.status import WaitingReason
from mcc.documents.briefs import Brief
from mcc.documents.change import Author
from mcc.documents.commands import CHILDREN, Accept
from mcc.documents.state import DocumentState

TOOLS = frozenset({"add_child", "remove_child", "move_child"})
ONLY = (
    "Only the outline is made now. Make the children, in their order, and say of each what it is about where it has "
    "metadata; set nothing else. A person looks at the outline before anything else is made."
)
AT_ONCE = 500
"""Most nodes held by one change."""


class OrderParked(Exception):
    """The order has to wait for a person or a clock, described by `block`; its drone releases it until then."""

    def __init__(self, block: Block) -> None:
        super().__init__(block.message)
        self.block = block


class NotApproved(Exception):
    """A person denied the outline; the message is a sentence."""


def outline_of(brief: Brief) -> Brief:
    """The brief of a node agent, reduced to making children."""
    tools = tuple(tool for tool in brief.tools if tool.name in TOOLS)
    return replace(brief, tools=tools, present=f"{brief.present}\n\n{ONLY}")


@dataclass(frozen=True, slots=True)
class Outline:
    """Requests the approval of a structure, and holds the structure once approved."""

    documents: DocumentPort
    turn: Turn
    origin: Origin
    order_id: str

    @property
    def approval_id(self) -> str:
        return derived_id(self.order_id, OUTLINE)

    @property
    def is_requested(self) -> bool:
        return self._decision is not None

    @property
    def _decision(self) -> str | None:
        """The decision; "" while it is pending, None before approval was requested."""
        root = self.turn.tree.begun(self.origin.record_id)
        item = None if root is None else root.conversation.items.get(self.approval_id)
        if item is None:
            return None
        return item.heard.decision if isinstance(item.heard, ApprovalDecided) else ""

    async def approved(self) -> None:
        """Return if the structure is approved, which then is held; request approval if that was not done yet.

        Raises `OrderParked` while the decision is pending, `NotApproved`, `DocumentLost`, `JournalError`.
        """
        state = await self.documents.state()
        # Only once: a resumed generation finds its request in the journal.
        if self._decision is None:
            paths = [state.path(node) for node in state.walk()]
            request = ApprovalRequested(
                approval_id=self.approval_id,
                call_id="",
                tool=OUTLINE,
                digest=f"sha256:{digest([self.documents.blueprint.digest, paths])}",
            )
            await self.turn.journal.write(self.origin, request)
        if not self._decision:
            raise OrderParked(Block(WaitingReason.APPROVAL, "the outline waits for a person's approval"))
        if self._decision != "approve":
            raise NotApproved("The outline was not approved.")
        await self._hold(state)

    async def _hold(self, state: DocumentState) -> None:
        """Accept structure and metadata in a person's name, with what people changed until the approval."""
        commands = list(_acceptances(state))
        for begin in range(0, len(commands), AT_ONCE):
            author = Author(by="person", at=now(), order_id=self.order_id)
            command_id = derived_id(self.approval_id, "held", begin)
            await self.documents.dispatch(self.origin, commands[begin : begin + AT_ONCE], author, command_id)


def _acceptances(state: DocumentState) -> Iterator[Accept]:
    for node in state.walk():
        metadata = [
            f"metadata.{name}"
            for name, value in node.metadata.items()
            if value is not None
            and f"metadata.{name}" in node.provenance
            and node.provenance[f"metadata.{name}"].by not in ("formula", "binding")
        ]
        structure = [CHILDREN] if state.children.get(node.id) else []
        if fields := (*metadata, *structure):
            yield Accept(node=node.id, fields=fields)
