"""Function rules of nodes whose document has changed since their functions looked: they are asked again, aside."""

from collections.abc import Iterator

from drone.agent.threads import OwnThreads
from drone.generation.port import Documents
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.shape import now
from mcc.documents.change import Author
from mcc.documents.commands import Judge, Judged
from mcc.documents.judging import judge_functions
from mcc.documents.node import Node
from mcc.documents.state import State

AT_ONCE = 200
"""Nodes whose functions are asked before the answers are kept."""


async def ask_functions(documents: Documents, threads: OwnThreads, origin: Origin, order_id: str) -> None:
    """Let the functions look at every node of which they have not said anything since it, or what is below it, changed.

    A dispatch waits for nobody, so it leaves them out. Raises `DocumentLost`, `JournalError`.
    """
    state = await documents.state()
    waiting = [node.id for node in _unasked(state)]
    for begin in range(0, len(waiting), AT_ONCE):
        said = {id: await _said(documents, state, id, threads) for id in waiting[begin : begin + AT_ONCE]}
        known = {id: verdicts for id, verdicts in said.items() if verdicts}
        if known:
            author = Author(by="person", at=now(), order_id=order_id)
            command_id = derived_id(order_id, "functions", state.version, begin)
            await documents.dispatch(origin, [Judge(version=state.version, verdicts=known)], author, command_id)


def _unasked(state: State) -> Iterator[Node]:
    for node in state.walk():
        if any(one.kind == "function" and one.ok is None for one in node.verdicts):
            yield node


async def _said(documents: Documents, state: State, id: str, threads: OwnThreads) -> tuple[Judged, ...]:
    found = await threads.gate(judge_functions, documents.blueprint, state, id, documents.functions, state.version)
    return tuple(Judged(rule=one.rule, ok=one.ok, message=one.message) for one in found.values() if one.ok is not None)
