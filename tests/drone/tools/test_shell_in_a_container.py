"""`kind = "container"` in mcc.toml: what `run_shell` does there, and what it refuses."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drone.access import toolbox_of
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.own import NO_OWN
from drone.tools.frame.tool import FunctionTools
from drone.tools.frame.wrappers import OnlyReading
from drone.tools.shell.commands import ShellTools
from mcc.contracts.entry import Origin
from mcc.contracts.limits import Limits

SECRET = "sk-a-key-of-the-operator-0001"
WHO = Origin(record_id="record-1", agent="general")
NAP = str(400_000 + os.getpid())


@dataclass
class Container:
    """The shell of a drone whose settings say that its container is the sandbox."""

    settings: Settings
    root: Path
    jobs: Jobs
    kept: OrderCheckpoints
    turn: Turn
    count: int = 0

    async def run(self, command: str, *, only_reading: bool = False, **more: object) -> Output:
        shell = toolbox_of(self.settings, NO_OWN).shell
        assert shell.problem is None
        tools = FunctionTools(
            ShellTools(shell).tools(), workspace=Workspace(self.root), checkpoints=self.kept, jobs=self.jobs
        )
        self.count += 1
        call = StartedCall(f"call-{self.count}", "run_shell", {"command": command, **more}, WHO, self.turn)
        return await (OnlyReading(tools) if only_reading else tools).call(call)

    async def told(self, command: str, **more: Any) -> dict[str, Any]:
        output = await self.run(command, **more)
        assert not output.is_error, output.content
        answer: dict[str, Any] = json.loads(output.content)
        return answer


@pytest.fixture
async def container(tmp_path: Path) -> AsyncIterator[Container]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "AGENTS.md").write_text("as a person wrote it")
    (root / "notes.txt").write_text("never committed")
    sandbox = {"kind": "container", "memory_mb": 200, "file_mb": 16}
    given = {"data_dir": tmp_path / "data", "sandbox": sandbox, "keys": {"OPENAI_API_KEY": SECRET}}
    async with Jobs() as jobs:
        kept = OrderCheckpoints(Workspace(root), tmp_path / "kept", "order")
        turn = Turn.begun(MemoryJournal("order"), Budget(Limits()))
        yield Container(Settings.model_validate(given), root, jobs, kept, turn)


def there(word: str) -> bool:
    """Whether a process has this word in its command line."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in Path("/proc", process, "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


async def test_a_command_is_told_as_elsewhere_and_what_it_destroys_was_kept(container: Container) -> None:
    answer = await container.told("rm notes.txt; echo spoilt > AGENTS.md; echo out; echo wrong >&2; exit 3")
    assert (answer["exit_code"], answer["output"], answer["profile"]) == (3, "out\nwrong\n", "workspace-write")
    assert sorted(answer["changed"]) == ["AGENTS.md", "notes.txt"]
    with container.kept.view("call-1") as before:
        for path, text in {"notes.txt": b"never committed", "AGENTS.md": b"as a person wrote it"}.items():
            node = before.node(path)
            assert node is not None and before.content(node, 100) == text


async def test_what_it_makes_of_what_is_protected_does_not_stay(container: Container) -> None:
    answer = await container.told("mkdir -p .git/hooks sub/.vscode; echo x > .git/hooks/post-commit; echo x > sub/.env")
    assert not list((container.root / ".git").rglob("post-commit")) and not (container.root / "sub" / ".env").exists()
    assert answer["undone"]


async def test_it_sees_no_key_and_its_sizes_hold(container: Container) -> None:
    answer = await container.told("env; tr '\\0' '\\n' < /proc/self/environ")
    assert SECRET not in answer["output"] and "PYTEST_CURRENT_TEST" not in answer["output"]
    assert (await container.told("dd if=/dev/zero of=/dev/null bs=500M count=1"))["exit_code"] != 0
    assert (await container.told("head -c 20000000 /dev/zero > big"))["exit_code"] != 0
    assert (container.root / "big").stat().st_size <= 16 << 20
    flood = await container.told("head -c 5000000 /dev/zero | tr '\\0' x")
    assert flood["bytes"] == 5_000_000 and len(flood["output"]) < 50_000 and "left out" in flood["output"]


async def test_it_ends_as_a_tree_at_its_time_and_with_its_order(container: Container) -> None:
    answer = await container.told(f"(setsid nohup sleep {NAP} &) ; sleep {NAP}", timeout_seconds=1)
    assert answer["timed_out"] and not there(NAP)
    job = (await container.told(f"(setsid sleep {NAP} &) ; sleep {NAP}", background=True))["job"]
    async with asyncio.timeout(60.0):
        while not there(NAP):  # noqa: ASYNC110 - the job's programs come up in their own time
            await asyncio.sleep(0.02)
    assert job == "job-1"
    await container.jobs.end()
    assert not there(NAP)


async def test_what_a_container_cannot_promise_is_refused_and_told(container: Container) -> None:
    refused = await container.run("true", only_reading=True)
    assert refused.is_error and "read-only" in refused.content
    toolbox = toolbox_of(container.settings, NO_OWN)
    state = await toolbox.sandbox()
    assert state.kind == "container" and state.walls.seccomp == "stands"
    assert "operator vouches" in state.walls.namespaces and "not put back" in state.walls.protected
    assert toolbox.shell.egress is None
