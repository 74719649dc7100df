"""This room is for the first look at a project: its languages, how it is built and started, what this machine has."""

import json
import os
import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from drone.tools.entry_points import EntryPoint
from drone.tools.files import workspace_of
from drone.tools.git_head import Head, git_head
from drone.tools.manifests import Manifests
from drone.tools.naming import written
from drone.tools.tool import ToolContext, tool
from drone.tools.walk import Found, Kind, Walk

PROGRAMS = ("rg", "bwrap", "git")
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


def detection_tool(git_problem: str | None) -> Detect:
    """`environment_detect` of a machine on which git cannot be used for this reason, or can (None)."""

    @tool(group="environment_read", idempotent=True, seconds=60, effects="read")
    def environment_detect(context: ToolContext) -> str:
        """Learn what kind of project the workspace holds: a good first call, before any file is read.

        The tools of git and shell work only after this one has been called once. The result is one JSON object: `files`
        and `directories` (counts, without what .gitignore names), `languages` (files by language, most first),
        `build_files`, `entry_points` (how it is started: scripts, commands, make targets, main modules, each with the
        file that says so), `git` (branch and commit, null without a repository), `os`, `tools` (which helper programs
        this machine has) and `git_tools` (whether they can be used, and why not).
        """
        return _detected(context, git_problem)

    return environment_detect


def _detected(context: ToolContext, git_problem: str | None) -> str:
    workspace = workspace_of(context)
    walk = Walk(workspace, stop=context.stop)
    found = list(walk.entries())
    files = [one for one in found if one.kind is Kind.FILE]
    builds = sorted((one for one in files if _is_build(one.path)), key=lambda one: (one.depth, one.path))
    manifests = Manifests(workspace, context.stop)
    manifests.read([one.path for one in builds])
    starts = [*manifests.found, *_main_modules(files)]
    git, git_notes = git_head(workspace)
    return json.dumps(
        {
            "files": len(files),
            "directories": sum(one.kind is Kind.DIRECTORY for one in found),
            "languages": _languages(files),
            "build_files": [written(one.path) for one in builds[:_SHOWN]],
            "build_file_count": len(builds),
            "entry_points": [asdict(start) for start in starts[:_SHOWN]],
            "entry_point_count": len(starts),
            "git": _git(git),
            "os": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
            "tools": {name: shutil.which(name) is not None for name in PROGRAMS},
            "git_tools": {"usable": git_problem is None, "problem": git_problem},
            "notes": [*walk.notes, *manifests.notes, *git_notes],
        },
        indent=1,
    )


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
    return [EntryPoint("main module", _module(one.path), one.path, written(one.path)) for one in mains]


def _is_main(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in ("__main__.py", "manage.py", "main.go", "main.rs") or path in ("main.py", "app.py")


def _module(path: str) -> str:
    """`python -m` name of a package's `__main__.py`; of other files their path."""
    directory, _, name = path.rpartition("/")
    parts = directory.removeprefix("src/").split("/")
    if name == "__main__.py" and all(part.isidentifier() for part in parts):
        return ".".join(parts)
    return written(path)


def _git(head: Head | None) -> dict[str, str | None] | None:
    return None if head is None else {"branch": head.branch, "head": head.commit}
