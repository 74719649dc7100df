"""A call that had its effect keeps outcome and content whatever fails after it, and a line says what was not recorded.

Behind each effect fails a double: the checkpoints, the journal's texts, the sandbox, the network.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.tools.files.writing import WritingTools
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import FunctionTool, FunctionTools
from drone.tools.git.writing import GitWriteTools
from drone.tools.shell.commands import ShellTools
from mcc.contracts.entry import Origin
from mcc.contracts.git_facts import WorkspaceCommitted
from mcc.contracts.journal import Outcome
from mcc.contracts.limits import Limits
from mcc.transcript.messages import CHANGING
from tests.drone.sandbox.machine import found_git, found_sandbox, found_shell
from tests.drone.tools.failing_records import (
    LINE,
    ClingingNetwork,
    FullJournal,
    StubbornSandbox,
    UnclosedCheckpoints,
)
from tests.drone.tools.git_scene import Scene

WHO = Origin(record_id="record-1", agent="master")


@dataclass
class Site:
    """A repository, and the tools that change it; `checkpoints` and `journal` are what may fail."""

    folder: Path
    checkpoints: type[OrderCheckpoints] = OrderCheckpoints
    journal: MemoryJournal = field(default_factory=lambda: MemoryJournal("order"))
    sandbox: type[Bubblewrap] = Bubblewrap
    jobs: Jobs = field(default_factory=Jobs)

    def __post_init__(self) -> None:
        self.scene = Scene(self.folder / "repo")
        self.scene.commit("first", {"a.txt": "one\n", "b.txt": "two\n"})
        self.scene.write({"staged.txt": "new\n"})
        self.scene.git("add", "staged.txt")
        workspace = Workspace(self.scene.root)
        self.turn = Turn.begun(self.journal, Budget(Limits()))
        sandbox = self.sandbox(found_sandbox().program, by_descriptor=found_sandbox()._sandbox_program.by_descriptor)
        functions: tuple[Callable[..., object] | FunctionTool, ...] = (
            *WritingTools(Protected()).tools(),
            *ShellTools(replace(found_shell(), sandbox=sandbox)).tools(),
            *GitWriteTools(replace(found_git(), sandbox=sandbox)).tools(),
        )
        own = self.checkpoints(workspace, self.folder / "data", "order")
        self.tools = FunctionTools(functions, workspace=workspace, checkpoints=own, jobs=self.jobs)

    async def use(self, name: str, **arguments: object) -> Output:
        return await self.tools.call(StartedCall(f"call-{name}", name, arguments, WHO, self.turn))


Effect = Callable[[Path], bool]
PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+patched\n"
CALLS: Mapping[str, tuple[Mapping[str, Any], Effect]] = {
    "write_file": ({"path": "new.txt", "content": "x\n"}, lambda root: (root / "new.txt").read_text() == "x\n"),
    "edit_file": (
        {"path": "a.txt", "old": "one", "new": "1"},
        lambda root: (root / "a.txt").read_text() == "1\n",
    ),
    "apply_patch": ({"patch": PATCH}, lambda root: (root / "a.txt").read_text() == "patched\n"),
    "move_file": ({"source": "a.txt", "target": "c.txt"}, lambda root: (root / "c.txt").exists()),
    "delete_file": ({"path": "a.txt"}, lambda root: not (root / "a.txt").exists()),
    "git_add": ({"paths": ["a.txt", "b.txt"]}, lambda root: True),
    "git_commit": (
        {"message": "Second"},
        lambda root: Scene.existing(root).git("log", "-1", "--format=%s") == "Second",
    ),
    "run_shell": (
        {"command": "echo said; echo more >> b.txt; exit 3"},
        lambda root: (root / "b.txt").read_text() == "two\nmore\n",
    ),
}


def without_what_differs(content: str) -> str:
    """Without seconds, digests, and the paths that could not be found."""
    content = re.sub(r'"seconds":[\d.]+', "", content)
    return re.sub(r"Commit [0-9a-f]+", "", re.sub(r'"changed":\[.*?\]', "", content))


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_whose_checkpoint_cannot_be_closed_keeps_its_result(tmp_path: Path, name: str) -> None:
    arguments, happened = CALLS[name]
    whole, failing = Site(tmp_path / "whole"), Site(tmp_path / "failing", UnclosedCheckpoints)
    for site in (whole, failing):
        site.scene.write({} if name != "git_add" else {"a.txt": "changed\n"})
    expected, told = await whole.use(name, **arguments), await failing.use(name, **arguments)
    content, line = told.content.rsplit("\n", 1)
    assert happened(failing.scene.root) and line == LINE
    assert without_what_differs(content) == without_what_differs(expected.content)
    assert (told.outcome, told.is_error, told.exit_code) == (expected.outcome, expected.is_error, expected.exit_code)
    assert LINE not in expected.content and told.files == expected.files


def test_every_tool_of_these_sets_that_changes_something_is_tried(tmp_path: Path) -> None:
    site = Site(tmp_path)
    changing = {spec.name for spec in site.tools.specs() if spec.effects in CHANGING}
    assert changing - {"shell_jobs"} == set(CALLS)


async def test_a_command_that_times_out_says_so_whatever_fails_after_it(tmp_path: Path) -> None:
    told = await Site(tmp_path, UnclosedCheckpoints).use("run_shell", command="echo x; sleep 60", timeout_seconds=0.5)
    assert told.outcome is Outcome.TIMEOUT and LINE in told.content and '"output":"x\\n"' in told.content


async def test_a_long_output_that_cannot_be_kept_is_told_in_part(tmp_path: Path) -> None:
    site = Site(tmp_path, journal=FullJournal("order"))
    told = await site.use("run_shell", command="seq 1 40000; exit 4")
    assert told.exit_code == 4 and "40000" in told.content and told.artifact is None
    assert told.content.endswith("\nnot recorded: [Errno 28] No space left on device.")


async def test_the_result_of_a_job_is_told_with_its_line(tmp_path: Path) -> None:
    site = Site(tmp_path, UnclosedCheckpoints)
    async with site.jobs:
        await site.use("run_shell", command="echo said > made; echo said", background=True)
        told = await site.use("shell_jobs", job="job-1", wait_seconds=20)
        while '"state":"running"' in told.content:
            told = await site.use("shell_jobs", job="job-1", wait_seconds=20)
    assert '"exit_code":0' in told.content and '"output":"said\\n"' in told.content
    assert told.content.endswith(f"\n{LINE}") and not told.is_error


async def test_a_commit_is_told_though_git_cannot_be_asked_about_it(tmp_path: Path) -> None:
    site = Site(tmp_path, sandbox=StubbornSandbox)
    told = await site.use("git_commit", message="Second")
    assert site.scene.git("log", "-1", "--format=%s") == "Second"
    assert told.content.startswith("Commit ") and "on main: Second" in told.content and not told.is_error
    assert "\nnot recorded: " in told.content and "Too many open files" in told.content
    assert [entry.data.subject for entry in site.journal.entries if isinstance(entry.data, WorkspaceCommitted)] == [
        "Second"
    ]


async def test_a_program_that_ran_is_not_taken_for_one_that_never_started(tmp_path: Path) -> None:
    """Its network cannot be closed any more."""
    (tmp_path / "work").mkdir()
    ran = await found_sandbox().run(
        ("sh", "-c", "echo ran > made; exit 5"),
        Workspace(tmp_path / "work"),
        Bounds(20.0),
        profile=Profile(write=True, egress=ClingingNetwork()),
    )
    assert ran.status == 5 and (tmp_path / "work" / "made").exists()
    assert len(ran.unfinished) == 1 and "Input/output error" in ran.unfinished[0]


async def test_bookkeeping_that_hangs_is_given_up() -> None:
    after = Aftermath(None, stop := Event(), seconds=0.01)
    assert await after.recorded(asyncio.sleep(60, "late"), "otherwise") == "otherwise"
    assert after.line == "not recorded: it took longer than 0.01 s." and stop.is_set()


async def test_each_reason_is_told_once_on_one_line_and_nothing_is_added_where_all_was_recorded() -> None:
    after = Aftermath(None)
    assert after.told(Output("x")).content == "x" and after.line == ""
    for why in ("one\nline\x1b[31m", "one\nline\x1b[31m", "another."):
        after.add(why)
    told = after.told(Output("x", exit_code=3))
    assert told.exit_code == 3 and told.content.count("\n") == 1 and "\x1b" not in told.content
    assert told.content.endswith("; another.") and told.content.count("one line") == 1
