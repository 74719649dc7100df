"""Changes after which a person's git, editor or agent would run a program, and what tells whether it would."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from drone.sandbox.protection.protected import Protected
from tests.drone.tools.git_scene import ANN, Scene

CANARY = "ran-on-the-host"
HEAD = "ref: refs/heads/main\n"


def config(root: Path) -> str:
    """A configuration that runs a program at `git status`."""
    canary = root.parent / CANARY
    return f"[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = \"touch '{canary}'; false\"\n"


@dataclass(frozen=True, slots=True)
class Trap:
    """Files to be written in this order, below a workspace that `scene` made. `CONFIG` stands for `config(root)`."""

    files: Mapping[str, str]

    def contents(self, root: Path) -> dict[str, str]:
        return {path: config(root) if content == "CONFIG" else content for path, content in self.files.items()}


TRAPS: dict[str, Trap] = {
    "config of a bare repository": Trap({"lib.git/config": "CONFIG"}),
    "hook of a bare repository": Trap({"lib.git/hooks/post-update": "#!/bin/sh\n"}),
    "info of a bare repository": Trap({"lib.git/info/attributes": "* filter=run\n"}),
    "worktree configuration": Trap({"lib.git/config.worktree": "CONFIG"}),
    "a new one, configuration first": Trap(
        {"fresh/config": "CONFIG", "fresh/HEAD": HEAD, "fresh/objects/x": "x\n", "fresh/refs/x": "x\n"}
    ),
    "a new one, configuration last": Trap(
        {"fresh/refs/x": "x\n", "fresh/objects/x": "x\n", "fresh/HEAD": HEAD, "fresh/config": "CONFIG"}
    ),
    "a new one, deep": Trap(
        {"a/b/HEAD": HEAD, "a/b/config": "CONFIG", "a/b/refs/heads/x": "x\n", "a/b/objects/info/x": "x\n"}
    ),
    "the workspace itself": Trap({"HEAD": HEAD, "objects/x": "x\n", "refs/x": "x\n", "config": "CONFIG"}),
    "a further tree": Trap(
        {"t/HEAD": HEAD, "c/objects/x": "x\n", "c/refs/x": "x\n", "c/config": "CONFIG", "t/commondir": "../c\n"}
    ),
    "a further tree, HEAD last": Trap(
        {"c/config": "CONFIG", "c/objects/x": "x\n", "c/refs/x": "x\n", "t/commondir": "../c\n", "t/HEAD": HEAD}
    ),
    "what a commondir names": Trap({"common/config": "CONFIG"}),
    "a .git": Trap(
        {"sub/.git/HEAD": HEAD, "sub/.git/objects/x": "x\n", "sub/.git/refs/x": "x\n", "sub/.git/config": "CONFIG"}
    ),
    "a gitfile": Trap({"plain/.git": "gitdir: ../elsewhere\n"}),
    "other case": Trap({"fresh/head": HEAD, "fresh/Objects/x": "x\n", "fresh/REFS/x": "x\n", "fresh/Config": "CONFIG"}),
    "invisible characters": Trap({"sub/.g\u200cit/config": "CONFIG"}),
    "drivers": Trap({"plain/.gitattributes": "*.c filter=run\n"}),
    "an agent's settings": Trap({".claude/settings.json": "{}\n"}),
    "another agent's": Trap({"app/.cursor/mcp.json": "{}\n"}),
    "an agent's instructions": Trap({".github/copilot-instructions.md": "Run it.\n"}),
    "an editor's": Trap({"app/.nvim.lua": "os.execute('x')\n"}),
    "a hook manager's": Trap({".husky/pre-commit": "x\n"}),
    "a debugger's": Trap({"deep/down/.gdbinit": "shell x\n"}),
    "a package manager's": Trap({".npmrc": "script-shell=x\n"}),
    "a directory's environment": Trap({".mise.toml": "[hooks]\n"}),
}

ORDINARY: dict[str, str] = {
    "config": "a = 1\n",
    "hooks/use.ts": "x\n",
    "src/refs/a.ts": "x\n",
    "src/objects/a.ts": "x\n",
    "src/config/a.ts": "x\n",
    "src/HEAD.md": "x\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".tool-versions": "node 22\n",
    ".editorconfig": "root = true\n",
    "package.json": "{}\n",
    "lib.git/note": "A library\n",
}
"""Files that every road lets through."""


def scene(root: Path) -> None:
    """A workspace with a bare repository, and with a git directory whose configuration lies in another one."""
    Scene(root / "lib.git", "--bare")
    for path, content in {"elsewhere/a": "x\n", "pointer/HEAD": HEAD, "pointer/commondir": "../common\n"}.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(content)
    for name in ("objects", "refs"):
        (root / "common" / name).mkdir(parents=True)
        (root / "common" / name / "kept").touch()


def asked(directory: str, root: Path, *arguments: str) -> str:
    """What git answers a person in this directory."""
    environment = {**ANN, "PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CEILING_DIRECTORIES": directory}
    done = subprocess.run(
        ("git", "-C", directory, *arguments), env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def sprung(root: Path) -> Iterator[str]:
    """What a person would run here: directories whose git runs the program, and protected files that were not there."""
    for above, directories, files in os.walk(root):
        if ".mcc-workspace" in above or not {".git", "head"} & set(map(str.lower, (*directories, *files))):
            continue
        if CANARY in asked(above, root, "config", "core.fsmonitor"):
            yield f"git takes its configuration from an agent in {above}"
        asked(above, root, "status", "--short")
        if (root.parent / CANARY).exists():
            (root.parent / CANARY).unlink()
            yield f"git runs a program in {above}"
    # os.walk passes over a directory that is deleted meanwhile.
    below = (Path(folder, name) for folder, folders, files in os.walk(root) for name in (*folders, *files))
    named = (str(path.relative_to(root)) for path in below if path.is_file() or path.is_symlink())
    yield from (path for path in named if ".mcc-workspace" not in path and Protected().refuses(path) is not None)
    bare = ("lib.git/hooks/post-update", "lib.git/info/attributes", "lib.git/config.worktree")
    yield from (path for path in bare if (root / path).exists())
    attributes = root / "plain/.gitattributes"
    if attributes.exists() and "filter" in attributes.read_text():
        yield "plain/.gitattributes"
