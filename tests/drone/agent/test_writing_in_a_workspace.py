"""An order becomes the one that writes in its workspace before its first call that may; until then that call waits."""

import asyncio

import pytest

from drone.agent.control.idle_watch import combined
from drone.agent.turns.toolset import Output
from drone.agent.turns.turn import Steering
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.journal import ToolStarted, WorkspaceHeld
from mcc.contracts.permission import Effects
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import WaitingReason
from mcc.transcript.messages import ToolSpec
from tests.drone.agent.lined_up import LinedUp
from tests.drone.agent.lone import Lone


@tool(group="workspace_write", effects="write", untrusted=False)
def put(path: str = "a") -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(group="workspace_read", effects="read")
def look() -> Output:
    """Read a file."""
    return Output("seen", files={"a": "digest"})


def lone(access: LinedUp, *script: Line | str, look_too: object = look) -> Lone:
    return Lone(script, FunctionTools([put, look_too]), writing=access.writing())  # type: ignore[list-item]


async def test_an_order_that_only_reads_asks_for_nothing() -> None:
    agent = lone(access := LinedUp(), Line(calls=(call("look"),)), "Done.")
    await agent.run()
    assert access.asked == 0 and agent.facts(WorkspaceHeld) == []


async def test_a_call_that_may_write_waits_before_it_starts_and_the_others_go_on() -> None:
    access = LinedUp()

    @tool(name="look", group="workspace_read", effects="read")
    def look_and_free() -> str:
        """Read a file; the workspace is free after that."""
        access.free = True
        return "seen"

    agent = lone(access, Line(calls=(call("put"), call("look"))), "Done.", look_too=look_and_free)
    report = await agent.run()
    assert report.status is RecordStatus.COMPLETED
    assert access.asked > 1 and [started.name for started in agent.facts(ToolStarted)] == ["look", "put"]
    kinds = agent.kinds()
    first, second = (at for at, kind in enumerate(kinds) if kind == "tool.started")
    assert first < kinds.index("workspace.held") < second
    (held,) = agent.facts(WorkspaceHeld)
    assert (held.key, held.waited_seconds, held.holder, held.changed) == ("the key", 2.5, "order-2", ())


async def test_an_order_that_writes_is_not_asked_again() -> None:
    agent = lone(access := LinedUp(free=True), *[Line(calls=(call("put", path=path),)) for path in "ab"], "Done.")
    await agent.run()
    assert access.asked == 1 and len(agent.facts(WorkspaceHeld)) == 1


async def test_what_others_have_changed_is_named_in_the_entry_and_in_that_calls_result() -> None:
    access = LinedUp(free=True, changed=[f"file-{number}\u202e" for number in range(30)])
    agent = lone(access, Line(calls=(call("look"),)), *[Line(calls=(call("put"),)) for _ in range(2)], "Done.")
    await agent.run()
    assert {path: set(digests) for path, digests in access.known.items()} == {"a": {"digest"}}
    (held,) = agent.facts(WorkspaceHeld)
    assert len(held.changed) == 20
    _, first, second = (result.content for result in agent.results())
    assert first.startswith("wrote a\nOthers changed files") and '"file-0⟦U+202E⟧"' in first and "file-20" not in first
    assert second == "wrote a"


async def test_a_tree_that_only_waits_for_its_workspace_is_idle_and_says_for_what() -> None:
    agent = lone(access := LinedUp(), Line(calls=(call("put"),)), "Done.")
    idle, found = agent.turn.idle, []

    def look_at(times: int) -> None:
        if idle.is_idle:
            found.append(combined(idle.blocks))
            access.free = True

    access.refused = look_at
    await agent.run()
    assert (found[0].reason, found[0].message) == (
        WaitingReason.WORKSPACE,
        "It waits for the workspace, in which order-2 writes",
    )


async def test_a_paused_order_leaves_the_line_and_asks_again_when_it_is_resumed() -> None:
    agent = lone(access := LinedUp(), Line(calls=(call("put"),)), "Done.")
    steering, waits = Steering(agent.turn), asyncio.Event()
    access.refused = lambda times: waits.set()
    running = asyncio.create_task(agent.run())
    await waits.wait()
    await steering.pause()
    await access.withdrawn.wait()
    access.free, asked = True, access.asked
    for _ in range(20):
        await asyncio.sleep(0)
    assert access.asked == asked and not agent.facts(WorkspaceHeld)
    await steering.resume()
    assert (await running).status is RecordStatus.COMPLETED
    assert len(agent.facts(ToolStarted)) == 1


async def test_a_cancelled_agent_leaves_the_line() -> None:
    agent = lone(access := LinedUp(), Line(calls=(call("put"),)), "Done.")
    steering, waits = Steering(agent.turn), asyncio.Event()
    access.refused = lambda times: waits.set() if times > 1 else None
    running = asyncio.create_task(agent.agent.run("Go.", agent.turn))
    await waits.wait()
    await steering.cancel()
    assert (await running).status is RecordStatus.CANCELLED
    assert access.withdrawn.is_set() and not agent.facts(WorkspaceHeld)


@pytest.mark.parametrize(
    ("group", "effects", "writes"),
    [
        ("workspace_write", None, True),
        ("git_write", "write", True),
        ("shell_write", "execute", True),
        ("shell_read", "execute", False),
        ("coordination", "write", True),
        ("delegation", "execute", True),
        ("delegation", "irreversible", True),
        ("web_read", "network", False),
        ("workspace_read", "read", False),
        ("mcp", "write", False),
        ("memory_write", "write", False),
        ("document_write", "write", False),
    ],
)
def test_which_tools_write_in_a_workspace(group: str, effects: Effects | None, writes: bool) -> None:
    assert ToolSpec("own", "", {}, group=group, effects=effects).writes_in_workspace is writes
