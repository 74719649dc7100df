"""A repository that would run a command as soon as anybody looks at it: here it runs none."""

import os
import stat
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from drone.agent.threads import OwnThreads
from drone.agent.toolset import Output
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.paths import Workspace
from drone.tools.git import GitTools
from drone.tools.git_program import Git
from drone.tools.git_repository import cleaned
from drone.tools.tool import FunctionTools
from tests.drone.tools.git_scene import Scene

Use = Callable[..., Awaitable[Output]]

SETTINGS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "pager.log",
    "pager.diff",
    "pager.status",
    "pager.show",
    "pager.branch",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "alias.status",
    "alias.log",
    "alias.diff",
    "alias.show",
    "alias.ls-files",
    "alias.for-each-ref",
    "alias.config",
    "gpg.program",
    "gpg.ssh.program",
    "credential.helper",
    "interactive.diffFilter",
    "uploadpack.packObjectsHook",
    "sequence.editor",
    "trailer.evil.command",
    "remote.origin.uploadpack",
    "remote.origin.vcs",
    "web.browser",
    "man.evil.cmd",
    "help.browser",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Scene, Path]]:
    """A repository with every setting, attribute and hook that names a program, and the directory that would tell."""
    (tmp_path / "ran").mkdir(mode=0o777)
    scene = Scene(tmp_path / "repo")
    scene.commit("first", {"a.txt": "one\n", ".gitattributes": "* diff=evil filter=evil merge=evil\n", "b.evil": "x\n"})
    sub = Scene(scene.root / "sub")
    sub.commit("inner", {"c.txt": "inner\n", ".gitattributes": "* diff=evil filter=evil\n"})
    scene.commit("second", {"a.txt": "two\n", ".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'})
    for where in (scene, sub):
        attack(where, tmp_path / "ran")
    (scene.root / "a.txt").write_text("three\n")
    (scene.root / "sub" / "c.txt").write_text("changed\n")
    yield scene, tmp_path / "ran"


def attack(scene: Scene, ran: Path) -> None:
    """Each program leaves a file where it can: outside, in the workspace, or in the sandbox's own /tmp and output."""
    program = scene.root / "evil.sh"
    program.write_text(
        f"#!/bin/sh\necho CANARY-RAN\necho CANARY-RAN >&2\ntouch {ran}/outside {scene.root}/inside\ncat\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    command = "sh ./evil.sh"
    for hook in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
        place = scene.root / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(program.read_bytes())
        place.chmod(0o755)
    (scene.root / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n")
    (scene.root / "included").write_text(f"[core]\n\tfsmonitor = {command}\n")
    config = scene.root / ".git" / "config"
    lines = [config.read_text(), "[include]\n\tpath = ../included\n", "[log]\n\tshowSignature = true\n"]
    lines += ['[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n']
    lines += ['[remote "origin"]\n\turl = "ext::sh ./evil.sh"\n\tpromisor = true\n[submodule]\n\trecurse = true\n']
    lines += ["[status]\n\tsubmoduleSummary = true\n[diff]\n\tsubmodule = log\n\tignoreSubmodules = none\n"]
    lines += ['[core]\n\thooksPath = .git/hooks\n[submodule "sub"]\n\tactive = true\n\tupdate = !sh ./evil.sh\n']
    for setting in SETTINGS:
        section, _, rest = setting.partition(".")
        name, _, key = rest.rpartition(".")
        prefix = "!" if section == "alias" else ""
        lines.append(f'[{section}{f" {chr(34)}{name}{chr(34)}" if name else ""}]\n\t{key} = "{prefix}{command}"\n')
    config.write_text("".join(lines))


CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"staged": True}),
    ("git_diff", {"ref": "HEAD~1"}),
    ("git_diff", {"ref": "HEAD~1..HEAD"}),
    ("git_diff", {"path": "sub"}),
    ("git_show", {"ref": "HEAD"}),
    ("git_show", {"ref": "HEAD", "path": "a.txt"}),
    ("git_show", {"ref": "HEAD", "path": "."}),
    ("git_log", {}),
    ("git_log", {"path": "a.txt"}),
    ("git_branches", {}),
    ("git_ls_files", {}),
)


@pytest.fixture
def git() -> Git:
    found = Git.found(Bubblewrap.found())
    if found.problem and "CI" not in os.environ:
        pytest.skip(found.problem)
    assert found.problem is None
    return found


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=str)
async def test_no_command_of_the_repository_runs(
    git: Git, use: Use, hostile: tuple[Scene, Path], name: str, arguments: dict[str, object]
) -> None:
    scene, ran = hostile
    of = GitTools(git)
    functions = (of.git_status, of.git_diff, of.git_show, of.git_log, of.git_branches, of.git_ls_files)
    output = await use(FunctionTools(functions, workspace=Workspace(scene.root)), name, **arguments)
    assert not output.is_error, output.content
    assert "CANARY-RAN" not in output.content
    assert os.listdir(ran) == [] and "inside" not in os.listdir(scene.root)


@pytest.mark.parametrize("name", ["status", "diff", "show"])
def test_the_same_repository_does_run_them_for_a_git_that_believes_it(
    git: Git, hostile: tuple[Scene, Path], name: str
) -> None:
    scene, ran = hostile
    command = ["git", "-c", "alias.x=!true", name]
    subprocess.run(command, cwd=scene.root, capture_output=True, timeout=30, check=False)
    assert os.listdir(ran) != []


async def test_in_the_sandbox_git_sees_only_a_configuration_of_ours(git: Git, hostile: tuple[Scene, Path]) -> None:
    scene, _ = hostile
    checkout = await git.opened(Workspace(scene.root), OwnThreads())
    ended = await checkout.run("config", "--list", "--show-origin", "--name-only", bounds=Bounds(20.0))
    lines = ended.stdout.head.decode().splitlines()
    theirs = [line for line in lines if not line.startswith("command line:")]
    assert theirs and all(line.split("\t")[1].startswith("core.") for line in theirs)
    assert {line.split("\t")[1] for line in theirs} <= {"core.repositoryformatversion", "core.filemode"}


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ("core.bare\ntrue\0core.worktree\n/etc\0", ""),
        ("core.filemode\0", "[core]\n\tfilemode = true\n"),
        ("core.filemode\nfalse\nfsmonitor = evil\0", ""),
        ("core.autocrlf\ninput\0core.fsmonitor\nx\0", "[core]\n\tautocrlf = input\n"),
        ("branch.a/b.remote\norigin\0", '[branch "a/b"]\n\tremote = origin\n'),
        ("branch.a.remote\next::sh -c id\0", ""),
        ('branch.a"]\n.remote\nx\0', ""),
        ("branch.main.merge\nrefs/heads/main\0", '[branch "main"]\n\tmerge = refs/heads/main\n'),
        ("remote.o.url\nhttps://x\0remote.o.uploadpack\nsh\0", ""),
        (
            "extensions.objectformat\nsha256\0extensions.worktreeconfig\ntrue\0",
            "[extensions]\n\tobjectformat = sha256\n",
        ),
        ("include.path\n/etc/x\0filter.x.clean\ny\0diff.x.textconv\nz\0", ""),
        ("", ""),
    ],
)
def test_of_a_configuration_only_what_says_how_to_read_files_is_kept(listed: str, kept: str) -> None:
    assert cleaned(listed.encode()).decode() == kept
