"""A look at a project: its languages, build, commit, programs; what an order's agents are shown of it first."""

import asyncio
import json
import os
import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from drone.agent.messages import ToolSpec
from drone.agent.threads import OwnThreads
from drone.agent.toolset import Call, Output, Preview, ToolSet, preview_of
from drone.sandbox.paths import PathDenied, PathError, PathMissing, Workspace
from drone.tools.display_text import cut, display_path, strip_controls
from drone.tools.files import workspace_of
from drone.tools.git_program import Git
from drone.tools.manifests import EntryPoint, Manifests
from drone.tools.tool import ToolContext, ToolFailed, failure, tool
from drone.tools.walk import Found, Kind, Walk, read_up_to
from mcc.contracts.fence import fenced
from mcc.contracts.journal import Outcome
from mcc.rules.patterns import Pattern

PROGRAMS = ("rg", "bwrap", "git")
SHELLS = ("bash", "zsh", "fish", "dash", "sh", "pwsh")
_SHOWN = 50

LANGUAGES: Mapping[str, str] = {
    ".bash": "Shell", ".c": "C", ".cc": "C++", ".clj": "Clojure", ".cpp": "C++", ".cs": "C#", ".css": "CSS",
    ".cxx": "C++", ".dart": "Dart", ".erl": "Erlang", ".ex": "Elixir", ".exs": "Elixir", ".fs": "F#", ".go": "Go",
    ".groovy": "Groovy", ".h": "C", ".hpp": "C++", ".hs": "Haskell", ".html": "HTML", ".ipynb": "Jupyter",
    ".java": "Java", ".jl": "Julia", ".js": "JavaScript", ".jsx": "JavaScript", ".json": "JSON", ".kt": "Kotlin",
    ".kts": "Kotlin", ".lua": "Lua", ".m": "Objective-C", ".md": "Markdown", ".mjs": "JavaScript", ".ml": "OCaml",
    ".nim": "Nim", ".php": "PHP", ".pl": "Perl", ".proto": "Protocol Buffers", ".ps1": "PowerShell", ".py": "Python",
    ".pyi": "Python", ".pyx": "Cython", ".r": "R", ".rb": "Ruby", ".rs": "Rust", ".rst": "reStructuredText",
    ".scala": "Scala", ".scss": "SCSS", ".sh": "Shell", ".sql": "SQL", ".svelte": "Svelte", ".swift": "Swift",
    ".tf": "Terraform", ".toml": "TOML", ".ts": "TypeScript", ".tsx": "TypeScript", ".vue": "Vue", ".xml": "XML",
    ".yaml": "YAML", ".yml": "YAML", ".zig": "Zig", ".zsh": "Shell",
}  # fmt: skip

BUILD_FILES = frozenset(
    {
        "BUILD", "BUILD.bazel", "CMakeLists.txt", "Cargo.toml", "Containerfile", "Dockerfile", "Gemfile", "GNUmakefile",
        "Justfile", "MODULE.bazel", "Makefile", "Package.swift", "Pipfile", "Rakefile", "WORKSPACE", "build.gradle",
        "build.gradle.kts", "build.sbt", "build.zig", "compose.yaml", "compose.yml", "composer.json", "configure.ac",
        "deno.json", "docker-compose.yaml", "docker-compose.yml", "flake.nix", "go.mod", "go.work", "justfile",
        "makefile", "meson.build", "mix.exs", "package.json", "pnpm-workspace.yaml", "pom.xml", "pubspec.yaml",
        "pyproject.toml", "requirements.txt", "setup.cfg", "setup.py", "tox.ini", "tsconfig.json",
    }
)  # fmt: skip
_BUILD_SUFFIXES = (".csproj", ".fsproj", ".sln", ".cabal", ".gemspec")


Detect = Callable[[ToolContext], str]

_PACKED_BYTES = 20_000_000
_COMMIT = Pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Head:
    """`branch` None: detached; `commit` None: nothing is committed yet, or it cannot be told."""

    branch: str | None
    commit: str | None


def detection_tool(git_problem: str | None) -> Detect:
    """`environment_detect` of a machine on which git cannot be used for this reason, or can (None)."""

    @tool(idempotent=True, seconds=60, effects="read")
    def environment_detect(context: ToolContext) -> str:
        """Learn what kind of project the workspace holds, in more detail than your first message says.

        One JSON object: files, directories, languages, build_files, entry_points, git, os, shells, separators,
        workspace, tools, git_tools, notes.
        """
        workspace = workspace_of(context)
        return json.dumps(surveyed(workspace, context.stop, _around(workspace, git_problem)), indent=1)

    return environment_detect


def _around(workspace: Workspace, git_problem: str | None) -> Mapping[str, Any]:
    """What `environment_detect` tells of where the workspace is, and of the machine. Blocks."""
    return {
        "os": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "shells": [name for name in SHELLS if shutil.which(name) is not None],
        "separators": {"path": os.sep, "list": os.pathsep, "line": os.linesep},
        "workspace": {"root": display_path(str(workspace.root))},
        "tools": {name: shutil.which(name) is not None for name in PROGRAMS},
        "git_tools": {"usable": git_problem is None, "problem": git_problem},
    }


def surveyed(workspace: Workspace, stop: Event, around: Mapping[str, Any] = {}) -> dict[str, Any]:
    """What `environment_detect` tells of a workspace, as JSON, and what is `around` it. Blocks. Raises `PathError`."""
    walk = Walk(workspace, stop=stop)
    found = list(walk.entries())
    files = [one for one in found if one.kind is Kind.FILE]
    builds = sorted((one for one in files if _is_build(one.path)), key=lambda one: (one.depth, one.path))
    manifests = Manifests(workspace, stop)
    manifests.read([one.path for one in builds])
    starts = [*manifests.found, *_main_modules(files)]
    git, git_notes = git_head(workspace)
    return {
        "files": len(files),
        "directories": sum(one.kind is Kind.DIRECTORY for one in found),
        "languages": _languages(files),
        "build_files": [display_path(one.path) for one in builds[:_SHOWN]],
        "build_file_count": len(builds),
        "entry_points": [asdict(start) for start in starts[:_SHOWN]],
        "entry_point_count": len(starts),
        "git": None if git is None else {"branch": git.branch, "head": git.commit},
        **around,
        "notes": [*walk.notes, *manifests.notes, *git_notes],
    }


def _is_build(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in BUILD_FILES or name.endswith(_BUILD_SUFFIXES)


def _languages(files: Iterable[Found]) -> list[dict[str, object]]:
    counted = Counter(
        language for one in files if (language := LANGUAGES.get(os.path.splitext(one.path)[1].lower())) is not None
    )
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"language": language, "files": count} for language, count in ranked]


def _main_modules(files: Iterable[Found]) -> list[EntryPoint]:
    mains = sorted((one for one in files if _is_main(one.path)), key=lambda one: (one.depth, one.path))
    return [EntryPoint("main module", _module(one.path), one.path, display_path(one.path)) for one in mains]


def _is_main(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in ("__main__.py", "manage.py", "main.go", "main.rs") or path in ("main.py", "app.py")


def _module(path: str) -> str:
    """`python -m` name of a package's `__main__.py`; of other files their path."""
    directory, _, name = path.rpartition("/")
    parts = directory.removeprefix("src/").split("/")
    if name == "__main__.py" and all(part.isidentifier() for part in parts):
        return ".".join(parts)
    return display_path(path)


def git_head(workspace: Workspace) -> tuple[Head | None, list[str]]:
    """The head of the repository at the workspace's root, None without one; and sentences on what cannot be told."""
    try:
        head = _read(workspace, ".git/HEAD", 4_096)
    except PathMissing:
        return None, _without(workspace)
    except (PathError, OSError) as error:
        return None, _without(workspace) or [f"Branch and commit are not told: {error}"]
    if not head.startswith("ref: "):
        return Head(None, _commit(head)), []
    reference = head.removeprefix("ref: ").strip()
    try:
        commit = _commit(_read(workspace, f".git/{reference}", 4_096))
    except (PathError, OSError):
        commit = _packed(workspace, reference)
    return Head(reference.removeprefix("refs/heads/"), commit), []


def _without(workspace: Workspace) -> list[str]:
    """Why there is no head to read, when there is a `.git` all the same."""
    try:
        pointer = _read(workspace, ".git", 4_096)
    except PathDenied:
        return [".git leads outside the workspace, so branch and commit are not told."]
    except (PathError, OSError):
        return []
    if pointer.startswith("gitdir:"):
        return [
            "This is a git worktree or submodule; its git directory is elsewhere, so branch and commit are not told."
        ]
    return []


def _packed(workspace: Workspace, reference: str) -> str | None:
    try:
        text = _read(workspace, ".git/packed-refs", _PACKED_BYTES)
    except (PathError, OSError):
        return None
    found = (line.partition(" ") for line in text.splitlines() if line.endswith(f" {reference}"))
    return next((_commit(commit) for commit, _, name in found if name == reference), None)


def _commit(text: str) -> str | None:
    return text.strip() if _COMMIT.fullmatch(text.strip()) else None


def _read(workspace: Workspace, path: str, size: int) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        return read_up_to(file.fileno(), size).decode("utf-8", "replace")


DETECTION = "environment_detect"
GATED = frozenset({"diff_read", "git_read", "git_write", "shell_read", "shell_write"})
"""Groups whose tools run programs."""


class Detected:
    """Whether `environment_detect` has succeeded in an order's workspace: once, by anybody in the tree, for all.

    `already`: the drone has looked itself, or a `tool.finished` of that name without an error stands in the journal.
    """

    def __init__(self, *, already: bool = False) -> None:
        self.done = already
        self._running: set[asyncio.Future[None]] = set()

    async def settled(self) -> bool:
        """Whether it has succeeded, those under way now included: they are waited for."""
        while not self.done and self._running:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return self.done

    async def by(self, toolset: ToolSet, call: Call) -> Output:
        """Run a detection, and remember it when it succeeds."""
        running = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            output = await toolset.call(call)
            self.done = self.done or not output.is_error
            return output
        finally:
            self._running.discard(running)
            running.set_result(None)


class EnvironmentGate:
    """Refuses the tools of `GATED` until `detected`. Wrap the workspace's tools once; all agents of a tree share it."""

    def __init__(self, toolset: ToolSet, detected: Detected) -> None:
        self._toolset = toolset
        self._detected = detected

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        if call.name == DETECTION:
            return await self._detected.by(self._toolset, call)
        return await self._refused(call) or await self._toolset.call(call)

    async def preview(self, call: Call) -> Preview | Output | None:
        return await self._refused(call) or await preview_of(self._toolset, call)

    async def _refused(self, call: Call) -> Output | None:
        gated = any(spec.name == call.name and spec.group in GATED for spec in self._toolset.specs())
        if not gated or await self._detected.settled():
            return None
        return failure(
            f"{call.name} waits until {DETECTION} has succeeded once in this workspace. Call {DETECTION} first, and "
            f"then {call.name} again.",
            Outcome.DENIED,
        )


GUIDE = "AGENTS.md"
GUIDE_BYTES = 8_192
_NAMED = 12
_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Look:
    """`text` is for models, what strangers may have written within a fence; `succeeded`: git and shell may be used."""

    text: str = ""
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """`found`: as `surveyed` answers; `guide`: how AGENTS.md begins."""

    found: Mapping[str, Any]
    guide: str

    @classmethod
    def of(cls, workspace: Workspace) -> "Survey | None":
        """None where the workspace cannot be looked at. Blocks."""
        try:
            return cls(surveyed(workspace, Event()), _guide(workspace))
        except (PathError, OSError):
            return None


async def first_look(survey: Survey | None, workspace: Workspace, git: Git, threads: OwnThreads) -> Look:
    """Never raises for what is in the workspace: an agent can still call `environment_detect` itself."""
    if survey is None:
        return Look()
    found, guide = survey.found, survey.guide
    changed = await _changed(workspace, git, threads) if found["git"] and git.problem is None else ""
    body = "\n".join(line for line in (*_lines(found), changed, guide) if line)
    said = f"What a look at the workspace found{f', and how {GUIDE} in it begins' if guide else ''}:"
    return Look(f"{said}\n{fenced(body, GUIDE)}", succeeded=True)


def _lines(found: Mapping[str, Any]) -> list[str]:
    git = found["git"]
    where = "" if not git else f"git: branch {git['branch'] or '(detached)'}, commit {str(git['head'])[:12]}"
    languages = [f"{one['language']} ({one['files']:,})" for one in found["languages"]]
    starts = [f"{one['name']} ({one['file']})" for one in found["entry_points"]]
    lines = [f"{found['files']:,} files in {found['directories']:,} directories", where]
    for title, names in (("languages", languages), ("build files", found["build_files"]), ("entry points", starts)):
        lines.append(_few(title, names))
    return [strip_controls(line) for line in lines]


def _few(title: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{title}: {cut(', '.join(names[:_NAMED]), _CHARACTERS)}{more}"


async def _changed(workspace: Workspace, git: Git, threads: OwnThreads) -> str:
    try:
        checkout = await git.opened(workspace, threads)
        checkout.needs_files()
        asked = ("status", "--porcelain", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty")
        return _few("changed", (await checkout.text(*asked)).splitlines()) or "nothing is changed since the commit"
    except (ToolFailed, PathError):
        return ""


def _guide(workspace: Workspace) -> str:
    """How AGENTS.md at the root begins; empty where there is none."""
    try:
        with workspace.open_file(GUIDE) as file:
            size = file.seek(0, 2)
            file.seek(0)
            data = read_up_to(file.fileno(), GUIDE_BYTES)
    except (PathError, OSError):
        return ""
    if b"\0" in data or not data.strip():
        return ""
    part = f" (the first {GUIDE_BYTES:,} of {size:,} bytes)" if size > GUIDE_BYTES else ""
    return f"\n{display_path(GUIDE)}{part}:\n{strip_controls(data.decode('utf-8', 'replace')).strip()}"
