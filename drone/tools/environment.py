"""The tool `environment_detect` (languages, build files, commit, programs), its gate, and the first look at it all."""

import asyncio
import json
import os
import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any

from drone.agent.turns.toolset import Output, Preview, StartedCall, ToolSet, preview_of
from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace
from drone.threads import OwnThreads
from drone.tools.files.listing import workspace_of
from drone.tools.files.manifests import EntryPoint, Manifests
from drone.tools.files.walk import Kind, Walk, WalkedEntry, read_up_to
from drone.tools.frame.display_text import cut, display_path, strip_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, failure, tool
from drone.tools.git.program import Git
from drone.tools.git.submodules import as_entries, submodules_of
from mcc.contracts.journal import Outcome
from mcc.rules.patterns import Pattern
from mcc.transcript.environment import GUIDE
from mcc.transcript.messages import ToolSpec

PROGRAMS = ("rg", "bwrap", "git")
SHELLS = ("bash", "zsh", "fish", "dash", "sh", "pwsh")
_LISTED = 50

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
class RepositoryHead:
    """A repository's head. `branch` None: detached; `commit` None: no commit yet, or unknown."""

    branch: str | None
    commit: str | None


def detection_tool(git_problem: str | None) -> Detect:
    """The tool `environment_detect`; `git_problem` says why git cannot be used on this machine, None if it can."""

    @tool(idempotent=True, seconds=60, effects="read")
    def environment_detect(context: ToolContext) -> str:
        """Learn what kind of project the workspace holds, in more detail than your first message says.

        One JSON object: files, directories, languages, build_files, entry_points, git, os, shells, separators,
        workspace, tools, git_tools, notes.
        """
        workspace = workspace_of(context)
        return json.dumps(survey_facts(workspace, context.stop, _machine_facts(workspace, git_problem)), indent=1)

    return environment_detect


def _machine_facts(workspace: Workspace, git_problem: str | None) -> Mapping[str, Any]:
    """The fields of `environment_detect` about the machine and the workspace's location. Blocks."""
    return {
        "os": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "shells": [name for name in SHELLS if shutil.which(name) is not None],
        "separators": {"path": os.sep, "list": os.pathsep, "line": os.linesep},
        "workspace": {"root": display_path(str(workspace.root))},
        "tools": {name: shutil.which(name) is not None for name in PROGRAMS},
        "git_tools": {"usable": git_problem is None, "problem": git_problem},
    }


def survey_facts(workspace: Workspace, stop: Event, machine: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The fields of `environment_detect` about a workspace, and those of `machine`. Blocks. Raises `PathError`."""
    walk = Walk(workspace, stop=stop)
    entries = list(walk.entries())
    files = [entry for entry in entries if entry.kind is Kind.FILE]
    builds = sorted(filter(_is_build_file, files), key=lambda file: (file.depth, file.path))
    manifests = Manifests(workspace, stop)
    manifests.read([file.path for file in builds])
    starts = [*manifests.found, *_main_modules(files)]
    git, git_notes = git_head(workspace)
    return {
        "files": len(files),
        "directories": sum(entry.kind is Kind.DIRECTORY for entry in entries),
        "languages": _languages(files),
        "build_files": [display_path(file.path) for file in builds[:_LISTED]],
        "build_file_count": len(builds),
        "entry_points": [asdict(start) for start in starts[:_LISTED]],
        "entry_point_count": len(starts),
        "git": None if git is None else {"branch": git.branch, "head": git.commit},
        **machine,
        "notes": [*walk.notes, *manifests.notes, *git_notes],
    }


def _is_build_file(file: WalkedEntry) -> bool:
    name = file.path.rpartition("/")[2]
    return name in BUILD_FILES or name.endswith(_BUILD_SUFFIXES)


def _languages(files: Iterable[WalkedEntry]) -> list[dict[str, object]]:
    counted = Counter(
        language for file in files if (language := LANGUAGES.get(os.path.splitext(file.path)[1].lower())) is not None
    )
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"language": language, "files": count} for language, count in ranked]


def _main_modules(files: Iterable[WalkedEntry]) -> list[EntryPoint]:
    mains = [
        file
        for file in files
        if file.path.rpartition("/")[2] in ("__main__.py", "manage.py", "main.go", "main.rs")
        or file.path in ("main.py", "app.py")
    ]
    mains.sort(key=lambda file: (file.depth, file.path))
    return [EntryPoint("main module", _module_name(file.path), file.path, display_path(file.path)) for file in mains]


def _module_name(path: str) -> str:
    """The name for `python -m` of a package's `__main__.py`; the path of any other file."""
    directory, _, name = path.rpartition("/")
    parts = directory.removeprefix("src/").split("/")
    if name == "__main__.py" and all(part.isidentifier() for part in parts):
        return ".".join(parts)
    return display_path(path)


def git_head(workspace: Workspace) -> tuple[RepositoryHead | None, list[str]]:
    """The head of the repository at the workspace's root, None if there is none, and notes on what cannot be read.

    Read from the repository's files, so that it works without git.
    """
    try:
        head = _read(workspace, ".git/HEAD", 4_096)
    except PathMissing:
        return None, _why_no_head(workspace)
    except (PathError, OSError) as error:
        return None, _why_no_head(workspace) or [f"Branch and commit are not told: {error}"]
    if not head.startswith("ref: "):
        return RepositoryHead(None, _commit_id(head)), []
    reference = head.removeprefix("ref: ").strip()
    try:
        commit = _commit_id(_read(workspace, f".git/{reference}", 4_096))
    except (PathError, OSError):
        commit = _packed_commit(workspace, reference)
    return RepositoryHead(reference.removeprefix("refs/heads/"), commit), []


def _why_no_head(workspace: Workspace) -> list[str]:
    """Notes for a workspace whose `.git` exists but holds no readable head."""
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


def _packed_commit(workspace: Workspace, reference: str) -> str | None:
    try:
        text = _read(workspace, ".git/packed-refs", _PACKED_BYTES)
    except (PathError, OSError):
        return None
    found = (line.partition(" ") for line in text.splitlines() if line.endswith(f" {reference}"))
    return next((_commit_id(commit) for commit, _, name in found if name == reference), None)


def _commit_id(text: str) -> str | None:
    return text.strip() if _COMMIT.fullmatch(text.strip()) else None


def _read(workspace: Workspace, path: str, size: int) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        return read_up_to(file.fileno(), size).decode("utf-8", "replace")


DETECTION = "environment_detect"
GATED = frozenset({"diff_read", "git_read", "git_write", "shell_read", "shell_write"})
"""Groups whose tools run programs."""


class Detected:
    """Whether `environment_detect` has succeeded in an order's workspace; one success counts for all its agents.

    `already`: the drone has surveyed the workspace itself, or the journal holds a `tool.finished` of that name without
    an error.
    """

    def __init__(self, *, already: bool = False) -> None:
        self.done = already
        self._running: set[asyncio.Future[None]] = set()

    async def settled(self) -> bool:
        """Whether a detection has succeeded; waits for those that are running."""
        while not self.done and self._running:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return self.done

    async def run(self, toolset: ToolSet, call: StartedCall) -> Output:
        """Run a detection, and remember its success."""
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
    """Refuses the tools of `GATED` groups until `detected` succeeded. One gate serves all agents of an order."""

    def __init__(self, toolset: ToolSet, detected: Detected) -> None:
        self._toolset = toolset
        self._detected = detected

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: StartedCall) -> Output:
        if call.name == DETECTION:
            return await self._detected.run(self._toolset, call)
        return await self._refused(call) or await self._toolset.call(call)

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        return await self._refused(call) or await preview_of(self._toolset, call)

    async def _refused(self, call: StartedCall) -> Output | None:
        gated = any(spec.name == call.name and spec.group in GATED for spec in self._toolset.specs())
        if not gated or await self._detected.settled():
            return None
        return failure(
            f"{call.name} waits until {DETECTION} has succeeded once in this workspace. Call {DETECTION} first, and "
            f"then {call.name} again.",
            Outcome.DENIED,
        )


GUIDE_BYTES = 8_192
_NAMED = 12
_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Look:
    """What agents see of the workspace first. `parts`: the untrusted parts of an `Environment`; `succeeded`: it counts
    as a detection, so git and shell may be used."""

    parts: Mapping[str, str] = field(default_factory=dict)
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceSurvey:
    """A survey of a workspace. `found`: the result of `survey_facts`; `guide`: the beginning of AGENTS.md."""

    found: Mapping[str, Any]
    guide: str

    @classmethod
    def of(cls, workspace: Workspace) -> "WorkspaceSurvey | None":
        """The survey of a workspace, None if it cannot be read. Blocks."""
        try:
            return cls(survey_facts(workspace, Event()), _guide_text(workspace))
        except (PathError, OSError):
            return None


async def first_look(survey: WorkspaceSurvey | None, workspace: Workspace, git: Git, threads: OwnThreads) -> Look:
    """What agents see of the workspace first; empty if `survey` is None.

    Whatever the workspace holds raises no error: an agent can still call `environment_detect` itself.
    """
    if survey is None:
        return Look()
    facts, guide = survey.found, survey.guide
    changed = await _changed_files(workspace, git, threads) if facts["git"] and git.problem is None else ""
    told = facts["git"]
    head = f"git: branch {told['branch'] or '(detached)'}, commit {str(told['head'])[:12]}" if told else ""
    git_lines = (strip_controls(head), changed)
    parts = {"survey": _survey_lines(facts), "git": "\n".join(filter(None, git_lines)), "agents_md": guide}
    return Look({name: text for name, text in parts.items() if text}, succeeded=True)


def _survey_lines(found: Mapping[str, Any]) -> str:
    languages = [f"{fact['language']} ({fact['files']:,})" for fact in found["languages"]]
    starts = [f"{start['name']} ({start['file']})" for start in found["entry_points"]]
    lines = [f"{found['files']:,} files in {found['directories']:,} directories"]
    for title, names in (("languages", languages), ("build files", found["build_files"]), ("entry points", starts)):
        lines.append(_few(title, names))
    return "\n".join(strip_controls(line) for line in lines if line)


def _few(title: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{title}: {cut(', '.join(names[:_NAMED]), _CHARACTERS)}{more}"


async def _changed_files(workspace: Workspace, git: Git, threads: OwnThreads) -> str:
    try:
        checkout = await git.opened(workspace, threads)
        checkout.needs_files()
        command = ("status", "--porcelain", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty")
        if changed := (await checkout.text(*command)).splitlines():
            return _few("changed", changed)
        inner = await submodules_of(checkout)
        nothing = "nothing is changed since the commit" + (", but maybe in its submodules" if inner.unseen else "")
        return _few("changed", as_entries(inner)) or nothing
    # What git cannot tell is left out of the first look; the git tools say why when they are called.
    except (ToolFailed, PathError):
        return ""


def _guide_text(workspace: Workspace) -> str:
    """The beginning of AGENTS.md at the root; empty if there is none."""
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
