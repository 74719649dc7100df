"""A repository whose configuration, hooks and attributes would run a command on any git call."""

import stat
from pathlib import Path

from tests.drone.tools.git_scene import Scene

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


def hostile_repository(root: Path, ran: Path) -> Scene:
    """With every setting, attribute and hook that names a program, which would leave a file in `ran`."""
    scene = Scene(root)
    scene.commit("first", {"a.txt": "one\n", ".gitattributes": "* diff=evil filter=evil merge=evil\n", "b.evil": "x\n"})
    sub = Scene(scene.root / "sub")
    sub.commit("inner", {"c.txt": "inner\n", ".gitattributes": "* diff=evil filter=evil\n"})
    scene.commit("second", {"a.txt": "two\n", ".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'})
    for where in (scene, sub):
        attack(where, ran)
    (scene.root / "a.txt").write_text("three\n")
    (scene.root / "sub" / "c.txt").write_text("changed\n")
    return scene


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
