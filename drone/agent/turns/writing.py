"""Makes an order the one that writes in its workspace, before its first call that may: the call waits for that."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from drone.agent.control.agent_control import AgentControl
from drone.agent.control.idle_watch import Block
from drone.agent.ports.write_access import HoldRefused, SharedWriting
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import Output
from drone.agent.turns.turn import Turn, wait_while_paused
from mcc.contracts.entry import Origin
from mcc.contracts.invisible import escape_on_one_line
from mcc.contracts.journal import WorkspaceHeld
from mcc.contracts.status import WaitingReason
from mcc.transcript.messages import WRITING_GROUPS, ToolSpec

MOST_NAMED = 20
"""Most changed files that are named."""


def must_hold(turn: Turn, spec: ToolSpec | None, origin: Origin) -> bool:
    """Whether a call of this tool by this agent has to wait until its order writes in the workspace. What an agent
    writes in a worktree of its own is in nobody's way."""
    writing = turn.writing
    if writing is None or writing.held or spec is None or not spec.writes_in_workspace:
        return False
    return not (spec.group in WRITING_GROUPS and turn.tree.in_worktree(origin.record_id))


async def hold_workspace(
    turn: Turn, activity: str, origin: Origin, control: AgentControl | None = None
) -> Sequence[str]:
    """Wait until the order is the only one that writes in its workspace. Answers the files that its agents have read
    and that others have changed since, where this activity (see `IdleWatch`) is the first to write.

    A paused agent wants nothing meanwhile. Raises `RunEnded`, `JournalError`.
    """
    writing = turn.writing
    assert writing is not None
    while True:
        if control is not None:
            await wait_while_paused(turn, control, activity)
        answer = await _ask(turn, writing, origin)
        if isinstance(answer, HoldRefused):
            answer = await _wait(turn, writing, activity, origin, answer, control)
        if not isinstance(answer, HoldRefused):
            return answer


async def _wait(
    turn: Turn,
    writing: SharedWriting,
    activity: str,
    origin: Origin,
    refused: HoldRefused,
    control: AgentControl | None,
) -> Sequence[str] | HoldRefused:
    """Ask again until the order writes, or the agent is paused."""
    answer: Sequence[str] | HoldRefused = refused
    writing.wanting += 1
    try:
        async with turn.blocked(activity, origin.record_id, Block(WaitingReason.WORKSPACE, refused.message)):
            while isinstance(answer, HoldRefused) and (control is None or control.block() is None):
                await asyncio.sleep(writing.ask_seconds)
                answer = await _ask(turn, writing, origin)
    finally:
        writing.wanting -= 1
        if not writing.held and not writing.wanting:
            writing.access.withdraw()
    return answer


async def _ask(turn: Turn, writing: SharedWriting, origin: Origin) -> Sequence[str] | HoldRefused:
    async with writing.asking:
        if writing.held:
            return ()
        hold = await writing.access.acquire()
        if isinstance(hold, HoldRefused):
            return hold
        changed = tuple(await writing.access.changed(_known_files(turn.tree)))[:MOST_NAMED]
        held = WorkspaceHeld(
            key=hold.key, waited_seconds=round(hold.waited_seconds, 3), holder=hold.holder, changed=changed
        )
        await turn.journal.write(origin, held)
        writing.held = True
        return changed


def _known_files(tree: Tree) -> Mapping[str, Collection[str]]:
    """What the agents that work in the workspace itself have read and left there."""
    known: dict[str, set[str]] = defaultdict(set)
    for record_id, record in tree.records.items():
        if tree.in_worktree(record_id, ended=True):
            continue
        for receipt in record.receipts:
            for path, digest in receipt.files.items():
                known[path].add(digest)
    return known


def telling_of_changes(output: Output, changed: Sequence[str]) -> Output:
    """The output of the call that was the first to write, with a line that names these files, if there are any."""
    if not changed:
        return output
    named = ", ".join(escape_on_one_line(json.dumps(path, ensure_ascii=False)) for path in changed)
    line = f"Others changed files that you or your agents had read before this call: {named}. Read them again."
    return replace(output, content=f"{output.content}\n{line}")
