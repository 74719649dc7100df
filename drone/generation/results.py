"""The result of a generation: which nodes are done, and how its order ends."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mcc.contracts.documents import Counts, GenerateResult, NodeStatus
from mcc.contracts.generation import OnFailure, Quorum
from mcc.contracts.order import OrderOutcome
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.documents.blueprint import Blueprint
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState

MAX_FAILURES = 5
"""Most failed nodes named in a sentence."""

WHY = 200
"""Most characters of the reason for each."""


@dataclass(frozen=True, slots=True)
class GenerationHalt:
    """Why a generation stopped early. `reason` is the order's failure reason, None where a person stopped it; `message`
    is a sentence. `limit` is the order's limit that was reached. `cuts_off`: running agents were interrupted.
    """

    reason: FailureReason | None
    message: str
    limit: str | None = None
    cuts_off: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A node that is not done after the generation. `reason` is that of its last failed run, "" without one."""

    path: str
    status: NodeStatus
    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class Generated:
    """The document after a generation. Of `total` nodes in question, `failed` ones are not done and `left` ones below
    those were not attempted. The rest is done; `stale` of it is stale again, as inputs were changed meanwhile."""

    document_id: str
    version: int
    counts: Counts
    total: int
    failed: tuple[Failed, ...]
    stale: int = 0
    left: int = 0
    usage: Usage = Usage()
    halted: GenerationHalt | None = None
    on_failure: OnFailure = "collect"

    @classmethod
    def of(
        cls,
        blueprint: Blueprint,
        state: DocumentState,
        asked: Iterable[str],
        worked: Collection[str],
        on_failure: OnFailure,
    ) -> "Generated":
        """`asked` are the ids of the existing nodes in question, parents before children; `worked` those of them that
        had an agent."""
        assessment = assessed(blueprint, state)
        total, stale, left, failed = 0, 0, 0, list[Failed]()
        unfinished: set[str] = set()
        for node_id in asked:
            total += 1
            node, status = state.nodes[node_id], assessment.statuses[node_id]
            if status == "done":
                continue
            above = node_id not in worked and any(ancestor.id in unfinished for ancestor in state.ancestors(node))
            if above:
                left += 1
            elif status == "stale":
                stale += 1
            else:
                messages = (verdict.message for verdict in node.verdicts if verdict.ok is False)
                broken = next(messages, "nothing could be done for it")
                reason, why = (node.failure.reason, node.failure.message) if node.failure else ("", broken)
                failed.append(Failed(state.path(node), status, reason, why))
                unfinished.add(node_id)
        return cls(
            state.id,
            state.version,
            assessment.counts,
            total,
            tuple(failed),
            stale=stale,
            left=left,
            on_failure=on_failure,
        )

    @property
    def enough(self) -> bool:
        """Whether enough nodes are done for the order to succeed."""
        if isinstance(self.on_failure, Quorum):
            return self.total - len(self.failed) - self.left >= self.on_failure.quorum * self.total
        return not self.failed

    @property
    def succeeded(self) -> bool:
        return self.halted is None and self.enough

    @property
    def why(self) -> str:
        """Why it did not succeed, and how far it came."""
        if self.halted is None:
            return self.sentence
        halted = f"{self.halted.message[:1].upper()}{self.halted.message[1:].rstrip('.')}."
        return f"{halted} {self.sentence}" if self.total else halted

    @property
    def result(self) -> GenerateResult:
        return GenerateResult(
            document_id=self.document_id,
            version=self.version,
            counts=self.counts,
            failed=tuple(one.path for one in self.failed),
        )

    @property
    def sentence(self) -> str:
        """The result in a sentence for people."""
        if not self.failed:
            again = f", {self.stale:,} of them stale again: what they rest on was changed meanwhile"
            done = f"{_nodes(self.total)} done{again if self.stale else ''}."
            return done if self.total else "Nothing was pending, stale or failed."
        failures = [f"{failure.path}: {failure.why[:WHY].rstrip('.')}" for failure in self.failed[:MAX_FAILURES]]
        more = [f"and {len(self.failed) - MAX_FAILURES} more"] if len(self.failed) > MAX_FAILURES else []
        verb = "is" if len(self.failed) == 1 else "are"
        below = f" What is below was left: {_nodes(self.left)}." if self.left else ""
        return f"{len(self.failed)} of {_nodes(self.total)} {verb} not done: {'; '.join([*failures, *more])}.{below}"

    def outcome(self) -> OrderOutcome:
        """The outcome of the order."""
        result = self.result.model_dump(mode="json")
        if self.succeeded:
            detail = self.sentence if self.failed else None
            return OrderOutcome(
                status=OrderStatus.SUCCEEDED, detail=detail, answer=self.sentence, result=result, accepted=True
            )
        reason = FailureReason.GATE_FAILED if self.halted is None else self.halted.reason
        return OrderOutcome(
            status=OrderStatus.CANCELLED if reason is None else OrderStatus.FAILED,
            reason=reason,
            detail=self.why,
            answer=self.sentence,
            result=result,
            accepted=False,
        )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
