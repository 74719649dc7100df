"""A worktree that somebody deletes: its content is reported as lost, never as unchanged."""

import asyncio
import shutil
from pathlib import Path

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from drone.sandbox.protection.protected import Protected
from mcc.contracts.entry import Entry
from mcc.contracts.git_facts import WorktreeEnded, WorktreeState
from mcc.transcript.messages import ToolResults
from tests.drone.sandbox.machine import found_shell
from tests.drone.worktrees.said_by_models import hire, script, write
from tests.drone.worktrees.test_worktrees_of_subagents import answered
from tests.drone.worktrees.workshop import ORDER, Workshop

LOST = "Somebody deleted its directory before its work was saved: what it did not commit is lost"


def place(shop: Workshop) -> Path:
    ((order, name),) = [(order, name) for order in shop.home.orders() for name in shop.left]
    return shop.data / order / name


async def test_a_worktree_deleted_while_its_agent_works_is_reported_as_lost(shop: Workshop) -> None:
    seen: list[str] = []

    def author(ask: Ask) -> Said:
        line = script([hire("x"), "done"], x=[write("x.txt", "x\n"), Line(calls=(call("git_status"),)), "done"])(ask)
        if isinstance(line, Line) and line.calls[0].name == "git_status":
            shutil.rmtree(place(shop) / "tree")
        elif line == "done" and isinstance(ask.messages[-1], ToolResults):
            seen.append(ask.messages[-1].results[0].content)
        return line

    await shop.run(author)
    (ended,) = shop.ended
    assert ended.state is WorktreeState.LOST and ended.message == f"{LOST}."
    assert "was deleted while the order was at work" in seen[0]
    assert (shop.scene.root / "a.txt").exists() and not (shop.scene.root / "x.txt").exists()
    assert answered(shop)[0]["worktree"]["message"] == ended.message  # type: ignore[index]
    assert await shop.clear_up() == 0 and shop.home.orders() == []


async def test_the_commits_of_a_deleted_worktree_are_on_its_ref(shop: Workshop) -> None:
    add, commit = Line(calls=(call("git_add", paths=["."]),)), Line(calls=(call("git_commit", message="Add c"),))
    steps: list[Said] = [write("c.txt", "c\n"), add, commit, "done"]

    def author(ask: Ask) -> Said:
        line = script([hire("x"), "done"], x=steps)(ask)
        if line == "done" and len(ask.messages) == 2 * len(steps) - 1:
            shutil.rmtree(place(shop))
        return line

    await shop.run(author)
    (ended,) = shop.ended
    assert ended.state is WorktreeState.LOST and ended.message.startswith(f"{LOST}. Nothing is merged; what it commit")
    assert ended.commit == shop.refs[ended.ref] and shop.scene.git("show", f"{ended.ref}:c.txt") == "c"


async def broken_off(shop: Workshop, steps: list[Said]) -> None:
    """Take the order from its drone after its child has done these steps."""
    reached, never = asyncio.Event(), asyncio.Event()
    said = script([hire("x"), "done"], x=[*steps, Line("?", gate=never)])

    def author(ask: Ask) -> Said:
        line = said(ask)
        if isinstance(line, Line) and line.gate is never:
            reached.set()
        return line

    working = asyncio.create_task(shop.run(author))
    await reached.wait()
    working.cancel()
    await asyncio.wait((working,))


async def test_a_written_worktree_deleted_while_its_order_rests_is_not_made_anew(shop: Workshop) -> None:
    await broken_off(shop, [write("x.txt", "x\n")])
    shutil.rmtree(place(shop))
    looked = Line(calls=(call("list_files"),))
    seen: list[str] = []

    def author(ask: Ask) -> Said:
        said = script([hire("x"), "done"], x=[write("x.txt", "x\n"), looked, "x is done"])(ask)
        if said == "x is done" and isinstance(ask.messages[-1], ToolResults):
            seen.append(ask.messages[-1].results[0].content)
        return said

    await shop.run(author, again=True)
    (ended,) = shop.ended
    assert (ended.state, ended.message, ended.commit) == (WorktreeState.LOST, f"{LOST}.", None)
    assert "was deleted while the order was at work" in seen[0] and shop.left == []


async def test_a_deleted_worktree_without_changes_is_made_anew(shop: Workshop) -> None:
    await broken_off(shop, [Line(calls=(call("list_files"),))])
    shutil.rmtree(place(shop))
    looked = Line(calls=(call("list_files"),))
    await shop.run(script([hire("x"), "done"], x=[looked, write("x.txt", "x\n"), "done"]), again=True)
    assert [one.state for one in shop.ended] == [WorktreeState.MERGED] and (shop.scene.root / "x.txt").exists()


async def test_a_deleted_worktree_of_a_finished_order_is_forgotten(shop: Workshop) -> None:
    await broken_off(shop, [write("x.txt", "x\n")])
    shutil.rmtree(place(shop) / "tree")
    assert await shop.clear_up() == 0 and shop.home.orders() == []


async def test_the_operators_protected_paths_are_in_no_snapshot_and_no_merge_changes_them(shop: Workshop) -> None:
    shop.protected = Protected(["keep/**"])
    shop.scene.commit("more", {"keep/a.txt": "theirs\n"})
    shop.scene.write({"keep/new.txt": "untracked\n"})
    await shop.run(script([hire("x"), "done"], x=[write("keep/a.txt", "x\n"), write("b.txt", "x\n"), "done"]))
    (ended,) = shop.ended
    assert ended.conflicts == ("keep/a.txt",) and (shop.scene.root / "b.txt").read_text() == "x\n"
    assert (shop.scene.root / "keep/a.txt").read_text() == "theirs\n"
    assert "keep/new.txt" not in shop.scene.git("ls-tree", "-r", "--name-only", ended.ref)


async def test_background_jobs_end_before_the_worktree_is_saved(shop: Workshop) -> None:
    shop.shell = found_shell()
    at_the_end: list[bool] = []

    def watch(entry: Entry) -> None:
        if isinstance(entry.data, WorktreeEnded):
            at_the_end.extend(one.over for one in shop.jobs.all)

    shop.journal = MemoryJournal(ORDER, watch=watch)
    counting = "while :; do n=$((n+1)); echo $n > new; mv new count.txt; echo $n; sleep 0.01; done"
    job = Line(calls=(call("run_shell", command=counting, background=True),))
    look = Line(calls=(call("run_shell", command="until test -s count.txt; do sleep 0.01; done"),))
    await shop.run(script([hire("x"), "done"], x=[job, look, "done"]))
    (ended,), (counted,) = shop.ended, shop.jobs.all
    assert at_the_end == [True] and ended.state is WorktreeState.MERGED and shop.left == []
    saved = int(shop.scene.git("show", f"{ended.ref}:count.txt"))
    assert saved - int(counted.output.head.split()[-1]) in (0, 1), "it was saved once nobody counted any more"
