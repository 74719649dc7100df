"""Subagents in worktrees: what they see, what is merged back, what is reported, and that nothing is lost."""

import json
import os
from collections.abc import Mapping

from drone.agent.ports.model import Ask
from drone.agent.ports.permits import Permits
from drone.models.scripted import Line, Said, call
from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.journal import Outcome, ToolFinished
from mcc.contracts.limits import Limits
from mcc.transcript.messages import ToolResults
from tests.drone.agent.lined_up import LinedUp
from tests.drone.worktrees.said_by_models import hire, script, write
from tests.drone.worktrees.workshop import Workshop


def answered(shop: Workshop) -> list[Mapping[str, object]]:
    """The results of the calls with which the master hired its children."""
    found = [one.data for one in shop.journal.entries if getattr(one.data, "name", "") == "subagents_run"]
    content = found[-1].content  # type: ignore[attr-defined]
    return list(json.loads(content[content.index("{") : content.rindex("}") + 1])["agents"])


async def test_what_two_children_write_side_by_side_is_merged(shop: Workshop) -> None:
    shop.scene.write({"a.txt": "one\ntwo\nthree\nmine\n", "new.txt": "mine\n"})
    await shop.run(
        script(
            [hire("x", "y"), "done"],
            x=[write("a.txt", "ONE\ntwo\nthree\nmine\n"), "x is done"],
            y=[write("dir/y.txt", "y\n"), Line(calls=(call("delete_file", path="old.txt"),)), "y is done"],
        )
    )
    root = shop.scene.root
    assert (root / "a.txt").read_text() == "ONE\ntwo\nthree\nmine\n"
    assert (root / "dir/y.txt").read_text() == "y\n" and not (root / "old.txt").exists()
    assert shop.scene.git("status", "--porcelain").split("\n") == ["M a.txt", " D old.txt", "?? dir/", "?? new.txt"]
    assert [one.state for one in shop.ended] == [WorktreeState.MERGED] * 2
    assert shop.left == [] and shop.home.orders() in ([], [shop.journal.entries[0].order_id])
    assert sorted(shop.refs) == sorted(one.ref for one in shop.ended)
    told = answered(shop)
    assert [one["worktree"]["state"] for one in told] == ["merged", "merged"]  # type: ignore[index]


async def test_a_child_sees_what_is_changed_and_new_but_not_what_git_ignores(shop: Workshop) -> None:
    shop.scene.write({"new.txt": "n", "x.log": "log", ".env": "KEY=1"})
    seen: list[str] = []

    def author(ask: Ask) -> Said:
        said = script([hire("x"), "done"], x=[Line(calls=(call("list_files"),)), "seen"])(ask)
        if said == "seen":
            results = [one for one in ask.messages if isinstance(one, ToolResults)]
            seen.append(results[-1].results[0].content)
        return said

    await shop.run(author)
    (listed,) = seen
    assert "new.txt" in listed and "x.log" not in listed and ".env" not in listed
    assert [one.state for one in shop.ended] == [WorktreeState.EMPTY] and shop.refs == {} and shop.left == []


async def test_in_a_conflict_the_parent_keeps_its_file_and_learns_where_the_other_is(shop: Workshop) -> None:
    await shop.run(
        script(
            [hire("x", "y"), "done"],
            x=[write("a.txt", "x\n"), write("x.txt", "x\n"), "done"],
            y=[write("a.txt", "y\n"), write("y.txt", "y\n"), "done"],
        )
    )
    states = {one.state: one for one in shop.ended}
    assert set(states) == {WorktreeState.MERGED, WorktreeState.CONFLICT}
    lost = states[WorktreeState.CONFLICT]
    assert lost.conflicts == ("a.txt",) and lost.ref in lost.message and "git_show" in lost.message
    root = shop.scene.root
    theirs = shop.scene.git("show", f"{lost.ref}:a.txt")
    assert {theirs, (root / "a.txt").read_text().strip()} == {"x", "y"}
    assert (root / "x.txt").exists() and (root / "y.txt").exists()
    (told,) = [one for one in answered(shop) if one["worktree"]["state"] == "conflict"]  # type: ignore[index]
    assert told["worktree"]["conflicts"] == ["a.txt"] and shop.left == []  # type: ignore[index]


async def test_the_work_of_an_incomplete_agent_is_kept_on_its_ref_and_not_merged(shop: Workshop) -> None:
    await shop.run(
        script([hire("x"), "done"], x=[write("a.txt", "half\n"), *[write("b.txt", "more\n")] * 40]),
        limits=Limits(subagent_rounds=2),
    )
    (ended,) = shop.ended
    assert ended.state is WorktreeState.KEPT and (shop.scene.root / "a.txt").read_text().startswith("one")
    assert shop.scene.git("show", f"{ended.ref}:a.txt") == "half" and shop.left == []


async def test_a_childs_commits_and_its_uncommitted_changes_are_both_merged(shop: Workshop) -> None:
    head = shop.scene.git("rev-parse", "HEAD")
    await shop.run(
        script(
            [hire("x"), "done"],
            x=[
                write("c.txt", "c\n"),
                Line(calls=(call("git_add", paths=["."]),)),
                Line(calls=(call("git_commit", message="Add c"),)),
                write("d.txt", "d\n"),
                "done",
            ],
        )
    )
    (ended,) = shop.ended
    assert ended.state is WorktreeState.MERGED
    assert shop.scene.git("log", "--format=%s", f"{head}..{ended.ref}").splitlines()[1] == "Add c"
    assert shop.scene.git("rev-parse", "HEAD") == head and (shop.scene.root / "c.txt").exists()
    assert (shop.scene.root / "d.txt").exists()


async def test_a_grandchilds_work_comes_back_through_its_parent(shop: Workshop) -> None:
    await shop.run(
        script(
            [hire("x"), "done"],
            x=[write("x.txt", "x\n"), hire("z"), "done"],
            z=[write("z.txt", "z\n"), "done"],
        )
    )
    assert [one.state for one in shop.ended] == [WorktreeState.MERGED] * 2 and shop.left == []
    assert (shop.scene.root / "x.txt").exists() and (shop.scene.root / "z.txt").exists()


async def test_files_that_git_ignores_are_saved_beside(shop: Workshop) -> None:
    await shop.run(script([hire("x"), "done"], x=[write("out.log", "report\n"), write("n.txt", "n\n"), "done"]))
    (ended,) = shop.ended
    assert shop.scene.git("show", f"{ended.ref}.ignored:out.log") == "report" and "out.log" in ended.message
    assert not (shop.scene.root / "out.log").exists() and shop.left == []


async def test_a_repository_that_a_child_made_is_not_deleted_with_its_worktree(shop: Workshop) -> None:
    await shop.run(
        script(
            [hire("x"), "done"],
            x=[
                write("inner/.git/HEAD", "ref: refs/heads/main\n"),
                write("inner/.git/objects/x", ""),
                write("inner/.git/refs/x", ""),
                write("inner/f.txt", "f"),
                "done",
            ],
        )
    )
    (ended,) = shop.ended
    assert shop.left != [] and "inner" in ended.message and "stays" in ended.message


async def test_an_agent_without_isolation_writes_where_its_parent_does(shop: Workshop) -> None:
    await shop.run(script([hire("x", role="plain"), "done"], x=[write("a.txt", "x\n"), "done"]))
    assert shop.ended == [] and (shop.scene.root / "a.txt").read_text() == "x\n"


async def test_without_a_repository_no_isolated_agent_is_hired(shop: Workshop) -> None:
    os.rename(shop.scene.root / ".git", shop.scene.root / "git-away")
    await shop.run(script([hire("x"), "done"], x=[write("a.txt", "x\n"), "done"]))
    (told,) = answered(shop)
    assert told["status"] == "failed" and "worktree of its own" in str(told["summary"])
    assert (shop.scene.root / "a.txt").read_text().startswith("one") and shop.left == []


async def test_a_tool_that_a_worktree_does_not_offer_never_runs_outside_of_it(shop: Workshop) -> None:
    before = (shop.scene.root / "a.txt").read_text()
    shop.not_in_worktrees = frozenset({"write_file"})
    await shop.run(script([hire("x"), "done"], x=[write("a.txt", "changed\n"), "x is done"]))
    assert (shop.scene.root / "a.txt").read_text() == before
    ended = [one.data for one in shop.journal.entries if isinstance(one.data, ToolFinished)]
    assert [one.outcome for one in ended if one.name == "write_file"] == [Outcome.DENIED]


async def test_in_an_order_that_only_plans_no_worktree_is_made_and_the_repository_stays_as_it_is(
    shop: Workshop,
) -> None:
    plan = Permits.of_order({}, "plan", {}, "deny", "")
    await shop.run(script([hire("x"), "done"], x=[write("a.txt", "x\n"), "looked at"]), permits=plan)
    (told,) = answered(shop)
    assert told["status"] == "completed" and shop.ended == [] and shop.left == [] and shop.refs == {}
    assert shop.scene.git("status", "--porcelain") == ""


async def test_a_child_in_a_worktree_writes_before_its_order_does_which_merging_back_needs(shop: Workshop) -> None:
    access, seen = LinedUp(), list[bool]()
    shop.writing = access.writing()

    def free(times: int) -> None:
        seen.append((shop.scene.root / "dir/y.txt").exists())
        access.free = times > 1

    access.refused = free
    await shop.run(script([hire("y"), "done"], y=[write("dir/y.txt", "y\n"), "y is done"]))
    assert seen == [False, False] and (shop.scene.root / "dir/y.txt").read_text() == "y\n"
    kinds = [entry.kind for entry in shop.journal.entries]
    assert kinds.count("workspace.held") == 1
    wrote = [at for at, entry in enumerate(shop.journal.entries) if getattr(entry.data, "name", "") == "write_file"]
    assert max(wrote) < kinds.index("workspace.held") < kinds.index("worktree.ended")
    assert [one.state for one in shop.ended] == [WorktreeState.MERGED]
