"""environment_detect reports the project as it is, and copes with broken files."""

import json
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.turns.toolset import Output
from drone.sandbox.places.paths import Workspace
from drone.tools.environment import RepositoryHead, detection_tool, git_head
from drone.tools.files.manifests import entry_points
from drone.tools.frame.tool import FunctionTools

Use = Callable[..., Coroutine[Any, Any, Output]]
COMMIT = "0123456789abcdef0123456789abcdef01234567"

MANIFESTS = {
    "pyproject.toml": '[project.scripts]\nmine = "pkg.cli:main"\n[tool.poetry.scripts]\nold = "pkg.old:main"\n',
    "web/package.json": json.dumps(
        {"name": "web", "main": "index.js", "bin": {"webx": "bin/x.js"}, "scripts": {"build": "tsc", "odd": 1}}
    ),
    "Makefile": "CC := gcc\n.PHONY: all\nall: build test\n\techo: no\nbuild test::\nall:\n",
    "rust/Cargo.toml": '[package]\nname = "crab"\n[[bin]]\nname = "claw"\npath = "src/claw.rs"\n',
    "go/go.mod": "module example.com/gopher\n\ngo 1.22\n",
    "Dockerfile": 'FROM x\nENTRYPOINT ["mine"]\nCMD --serve\n',
}


def make(root: Path, tree: dict[str, str]) -> None:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


async def detected(use: Use, root: Path, git_problem: str | None = None) -> dict[str, Any]:
    output = await use(FunctionTools([detection_tool(git_problem)], workspace=Workspace(root)), "environment_detect")
    assert not output.is_error, output.content
    told: dict[str, Any] = json.loads(output.content)
    return told


async def test_languages_and_files_are_counted(use: Use, tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "", "b/c.PY": "", "d.ts": "", "LICENSE": "", ".gitignore": "gen/\n", "gen/x.py": ""})
    found = await detected(use, tmp_path)
    assert (found["files"], found["directories"]) == (5, 1)
    assert found["languages"] == [{"language": "Python", "files": 2}, {"language": "TypeScript", "files": 1}]
    assert found["git"] is None
    assert found["tools"] == {name: shutil.which(name) is not None for name in ("rg", "bwrap", "git")}
    assert found["os"]["system"] and found["notes"] == []


async def test_whether_the_git_tools_can_be_used_is_told_with_the_reason(use: Use, tmp_path: Path) -> None:
    assert (await detected(use, tmp_path))["git_tools"] == {"usable": True, "problem": None}
    off = (await detected(use, tmp_path, "there is no sandbox"))["git_tools"]
    assert off == {"usable": False, "problem": "there is no sandbox"}


async def test_build_files_and_entry_points_come_with_where_they_stand(use: Use, tmp_path: Path) -> None:
    make(tmp_path, {**MANIFESTS, "src/pkg/__main__.py": "", "go/cmd/x/main.go": "", "x-y/__main__.py": ""})
    found = await detected(use, tmp_path)
    assert found["build_files"] == [
        *("Dockerfile", "Makefile", "pyproject.toml"),
        *("go/go.mod", "rust/Cargo.toml", "web/package.json"),
    ]
    starts = [(start["kind"], start["name"], start["target"], start["file"]) for start in found["entry_points"]]
    assert starts == [
        ("container", "ENTRYPOINT", '["mine"]', "Dockerfile"),
        ("container", "CMD", "--serve", "Dockerfile"),
        ("make target", "all", "make all", "Makefile"),
        ("python script", "mine", "pkg.cli:main", "pyproject.toml"),
        ("python script", "old", "pkg.old:main", "pyproject.toml"),
        ("go module", "example.com/gopher", "", "go/go.mod"),
        ("cargo bin", "claw", "src/claw.rs", "rust/Cargo.toml"),
        ("cargo package", "crab", "", "rust/Cargo.toml"),
        ("npm bin", "webx", "bin/x.js", "web/package.json"),
        ("npm main", "web", "index.js", "web/package.json"),
        ("npm script", "build", "tsc", "web/package.json"),
        ("npm script", "odd", "1", "web/package.json"),
        ("main module", "x-y/__main__.py", "x-y/__main__.py", "x-y/__main__.py"),
        ("main module", "pkg", "src/pkg/__main__.py", "src/pkg/__main__.py"),
        ("main module", "go/cmd/x/main.go", "go/cmd/x/main.go", "go/cmd/x/main.go"),
    ]
    assert found["entry_point_count"] == len(starts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\n"),
        ("package.json", "{"),
        ("package.json", "[" * 200_000),
        ("Cargo.toml", "x = "),
        ("package.json", '"' + "x" * 1_000_000 + '"'),
    ],
)
async def test_a_broken_manifest_is_a_note(use: Use, tmp_path: Path, name: str, text: str) -> None:
    make(tmp_path, {name: text})
    found = await detected(use, tmp_path)
    assert found["entry_points"] == [] and found["build_files"] == [name]
    assert found["notes"][0].startswith(f"{name} could not be read: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", "[]"),
        ("package.json", '{"bin": 1, "scripts": [], "main": {}}'),
        ("pyproject.toml", "project = 1\n[tool]\npoetry = []\n"),
        ("Cargo.toml", 'bin = "x"\npackage = 1\n'),
        ("go.mod", "nothing"),
        ("README.md", "# all:"),
    ],
)
def test_manifests_of_an_unexpected_shape_declare_nothing(name: str, text: str) -> None:
    assert list(entry_points(name, text)) == []


async def test_a_manifest_that_is_a_link_outside_is_not_followed(use: Use, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "secret.toml").write_text('[project.scripts]\nsecret = "x:y"\n')
    (tmp_path / "project" / "pyproject.toml").symlink_to(tmp_path / "secret.toml")
    found = await detected(use, tmp_path / "project")
    assert found["build_files"] == [] and found["entry_points"] == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_branch_and_commit_are_those_of_git(use: Use, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "feature/x")
    assert (await detected(use, tmp_path))["git"] == {"branch": "feature/x", "head": None}
    git("commit", "-q", "--allow-empty", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert (await detected(use, tmp_path))["git"] == {"branch": "feature/x", "head": commit}
    git("pack-refs", "--all")
    assert (await detected(use, tmp_path))["git"] == {"branch": "feature/x", "head": commit}
    git("checkout", "-q", "--detach")
    assert (await detected(use, tmp_path))["git"] == {"branch": None, "head": commit}


def test_a_git_directory_elsewhere_is_told(tmp_path: Path) -> None:
    make(tmp_path, {".git": "gitdir: /elsewhere/.git/worktrees/x\n"})
    head, notes = git_head(Workspace(tmp_path))
    assert head is None and "worktree" in notes[0]


def test_a_head_that_points_outside_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path, {"secret": COMMIT, "repo/.git/HEAD": "ref: ../../secret\n"})
    assert git_head(Workspace(tmp_path / "repo"))[0] == RepositoryHead("../../secret", None)
    make(tmp_path, {"repo/.git/HEAD": "not a commit"})
    assert git_head(Workspace(tmp_path / "repo"))[0] == RepositoryHead(None, None)


def test_a_git_directory_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    make(tmp_path, {"other/HEAD": COMMIT, "repo/x": ""})
    (tmp_path / "repo" / ".git").symlink_to(tmp_path / "other")
    head, notes = git_head(Workspace(tmp_path / "repo"))
    assert head is None and "outside" in notes[0]


async def test_shells_separators_and_the_root_of_the_workspace_are_told(use: Use, tmp_path: Path) -> None:
    found = await detected(use, tmp_path)
    assert found["shells"] == [name for name in ("bash", "zsh", "fish", "dash", "sh", "pwsh") if shutil.which(name)]
    assert found["separators"] == {"path": "/", "list": ":", "line": "\n"}
    assert found["workspace"] == {"root": str(tmp_path)}
