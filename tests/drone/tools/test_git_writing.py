"""git_add and git_commit: they stage only what the call names, and commit under the agents' own identity."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, Preview, StartedCall, preview_of
from drone.agent.turns.turn import Turn
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private
from drone.tools.frame.tool import FunctionTools
from drone.tools.git.program import Git
from drone.tools.git.writing import GitWriteTools
from mcc.contracts.entry import Origin
from mcc.contracts.git_facts import WorkspaceCommitted
from mcc.contracts.invisible import escape_invisible
from mcc.contracts.journal import Outcome
from mcc.contracts.limits import Limits
from tests.drone.sandbox.machine import found_git
from tests.drone.tools.git_scene import Scene

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture(scope="module")
def git() -> Git:
    return found_git()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\n", "b.txt": "b\n", "dir/c.txt": "c\n"})
    scene.write({"a.txt": "two\n", "dir/new.txt": "new\n"})
    (scene.root / "b.txt").unlink()
    return scene


@pytest.fixture
def tools(git: Git, scene: Scene) -> FunctionTools:
    return FunctionTools(GitWriteTools(git).tools(), workspace=Workspace(scene.root))


async def test_what_is_named_is_staged_and_what_is_staged_is_committed(
    tools: FunctionTools, use: Use, scene: Scene
) -> None:
    assert (await use(tools, "git_add", paths=["a.txt", "b.txt"])).content.splitlines() == [
        "Staged, 2 in all:",
        "M a.txt",
        "D b.txt",
    ]
    done = await use(tools, "git_commit", message="Mend it\n\n#1 is mended")
    assert not done.is_error and "on main: Mend it" in done.content and "a.txt" in done.content
    assert scene.git("log", "-1", "--format=%an %ae|%cn|%B") == "mcc mcc@localhost|mcc|Mend it\n\n#1 is mended"
    assert scene.git("show", "--name-status", "--format=", "HEAD").split() == ["M", "a.txt", "D", "b.txt"]
    assert scene.git("status", "--porcelain") == "?? dir/new.txt"


async def test_a_directory_or_everything_can_be_staged(tools: FunctionTools, use: Use, scene: Scene) -> None:
    assert "A dir/new.txt" in (await use(tools, "git_add", paths=["dir"])).content
    assert scene.git("diff", "--cached", "--name-only") == "dir/new.txt"
    assert "3 in all" in (await use(tools, "git_add", paths=["."])).content


async def test_a_commit_of_nothing_is_refused(tools: FunctionTools, use: Use, scene: Scene) -> None:
    before = scene.git("rev-parse", "HEAD")
    for message in ("Empty", " \n ", "\x1b[31m"):
        assert (await use(tools, "git_commit", message=message)).is_error
    assert scene.git("rev-parse", "HEAD") == before


async def test_what_would_be_committed_is_shown_before_and_changes_nothing(
    tools: FunctionTools, use: Use, scene: Scene
) -> None:
    def call(name: str, **arguments: object) -> StartedCall:
        return StartedCall("call-1", name, arguments, Origin(record_id="record-1", agent="master"))

    staging = await preview_of(tools, call("git_add", paths=["."]))
    assert isinstance(staging, Preview) and "add 'dir/new.txt'" in staging.text and "remove 'b.txt'" in staging.text
    assert scene.git("diff", "--cached", "--name-only") == ""
    await use(tools, "git_add", paths=["a.txt"])
    shown = await preview_of(tools, call("git_commit", message="Mend it"))
    assert isinstance(shown, Preview) and shown.kind == "diff" and "+two" in shown.text and "Mend it" in shown.text
    assert scene.git("log", "--format=%s") == "first"
    refused = await preview_of(tools, call("git_add", paths=["../x"]))
    assert isinstance(refused, Output) and refused.outcome is Outcome.DENIED


async def test_a_message_is_shown_whole_and_committed_as_it_was_shown(
    tools: FunctionTools, use: Use, scene: Scene
) -> None:
    message = "  Mend it \u202e\n\n\n# no comment \n\n 2 files changed\n\u200b"
    scene.write({"a.txt": "one\n\x1b]0;two\x07\n"})
    await use(tools, "git_add", paths=["a.txt"])
    said = await preview_of(
        tools, StartedCall("c", "git_commit", {"message": message}, Origin(record_id="r", agent="master"))
    )
    assert isinstance(said, Preview) and said.text.startswith(f"{message}\n\n") and "+\x1b]0;two\x07\n" in said.text
    assert said.text.endswith("\n[the message has 7 lines]")
    assert not (await use(tools, "git_commit", message=message)).is_error
    assert scene.raw_message() == message


async def test_no_path_looks_like_two_where_it_is_asked_whether_to_stage_it(tools: FunctionTools, scene: Scene) -> None:
    async def staging(path: str) -> str:
        said = await preview_of(
            tools, StartedCall("c", "git_add", {"paths": [path]}, Origin(record_id="r", agent="master"))
        )
        assert isinstance(said, Preview)
        return said.text

    scene.write({"x/one'\nadd 'x/two": "1\n", "y/\x1b]0;\u202e": "2\n"})
    assert await staging("x") == "stage \"x/one'\\nadd 'x/two\"\n"
    assert await staging("y") == "add 'y/\x1b]0;\u202e'\n"


@pytest.mark.parametrize("control", ["\x1b", "\r", "\x00", "\x9b", "\x7f"])
async def test_a_message_with_a_control_is_refused_unasked(
    tools: FunctionTools, use: Use, scene: Scene, control: str
) -> None:
    await use(tools, "git_add", paths=["a.txt"])
    for found in (
        await preview_of(
            tools, StartedCall("c", "git_commit", {"message": f"Mend{control} it"}, Origin(record_id="r"))
        ),
        await use(tools, "git_commit", message=f"Mend{control} it"),
    ):
        assert isinstance(found, Output) and found.is_error and f"U+{ord(control):04X}" in found.content
    assert scene.git("log", "--format=%s") == "first"


async def test_other_staged_contents_are_another_preview(tools: FunctionTools, use: Use, scene: Scene) -> None:
    previews = set()
    for content in (b"\xff\n", b"\xfe\n", b"\0" * 9_000 + b"1", b"\0" * 9_000 + b"2", b"a\r\nb\r\n", b"a\nb\n"):
        scene.write({"a.txt": content})
        await use(tools, "git_add", paths=["a.txt"])
        said = await preview_of(tools, StartedCall("c", "git_commit", {"message": "Mend it"}, Origin(record_id="r")))
        assert isinstance(said, Preview)
        assert scene.git("rev-parse", ":a.txt") in said.text, "by its whole id"
        previews.add(escape_invisible(said.text))
    assert len(previews) == 6


async def test_a_commit_is_told_in_the_journal(tools: FunctionTools, use: Use, scene: Scene) -> None:
    journal = MemoryJournal("order-1")
    turn = Turn.begun(journal, Budget(Limits()))
    await use(tools, "git_add", paths=["."])
    await tools.call(StartedCall("call-1", "git_commit", {"message": "Mend it"}, Origin(record_id="r"), turn))
    (told,) = [entry.data for entry in journal.entries]
    head, parent = scene.git("rev-parse", "HEAD"), scene.git("rev-parse", "HEAD~1")
    assert told == WorkspaceCommitted(call_id="call-1", commit=head, parent=parent, branch="main", subject="Mend it")


async def test_repositories_within_are_left_alone(tools: FunctionTools, use: Use, scene: Scene) -> None:
    Scene(scene.root / "inner").commit("x", {"x": "x"})
    Scene(scene.root / "bare-bones")
    denied = await use(tools, "git_add", paths=["inner"])
    assert denied.outcome is Outcome.DENIED
    assert "inner" not in (await use(tools, "git_add", paths=["."])).content


async def test_what_a_filter_would_change_is_refused(tools: FunctionTools, use: Use, scene: Scene) -> None:
    scene.write({".gitattributes": "*.bin filter=lfs\n", "x.bin": "raw"})
    refused = await use(tools, "git_add", paths=["."])
    assert refused.outcome is Outcome.DENIED and "x.bin" in refused.content
    assert "A .gitattributes" in (await use(tools, "git_add", paths=[".gitattributes"])).content


async def test_what_goes_through_no_filter_is_staged_wherever_it_lies(
    tools: FunctionTools, use: Use, scene: Scene
) -> None:
    scene.write({".gitattributes": "*.bin filter=lfs\n", "deep/er/x.txt": "raw", "deep/er/x.bin": "raw"})
    assert (await use(tools, "git_add", paths=["deep/er/x.txt"])).content == "Staged, 1 in all:\nA deep/er/x.txt"
    assert (await use(tools, "git_add", paths=["deep/er/x.bin"])).outcome is Outcome.DENIED


async def test_what_belongs_to_mcc_itself_is_not_staged_as_empty(git: Git, use: Use, scene: Scene) -> None:
    scene.commit("all", {"mine.toml": "key\n"})
    scene.write({"a.txt": "three\n"})
    private = Private([scene.root / "mine.toml"])
    tools = FunctionTools(GitWriteTools(git).tools(), workspace=Workspace(scene.root, private=private))
    assert (await use(tools, "git_add", paths=["."])).content == "Staged, 1 in all:\nM a.txt"
    assert (await use(tools, "git_add", paths=["mine.toml"])).outcome is Outcome.DENIED


async def test_the_first_commit_of_a_repository_can_be_made(git: Git, use: Use, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "new")
    scene.write({"a": "a"})
    tools = FunctionTools(GitWriteTools(git).tools(), workspace=Workspace(scene.root))
    await use(tools, "git_add", paths=["a"])
    assert not (await use(tools, "git_commit", message="Begin")).is_error
    assert scene.git("log", "--format=%s") == "Begin"
