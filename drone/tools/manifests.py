"""The manifests of a workspace: how a project is started by their word, read within bounds, the hard ones aside."""

import json
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from drone.sandbox.paths import PathError, Workspace
from drone.tools.display_text import cut, display_path
from drone.tools.walk import read_up_to

_SAID = 300

MAX_BYTES = 256_000
MAX_MANIFESTS = 100
MAX_DECLARED = 1_000
"""The longest manifest that is read, how many are, and what of one is told."""

SECONDS = 10.0
"""How long all of them may take together."""

_EACH_SECONDS = 1.0
_PLAIN_BYTES = 64_000
_PLAIN_TOML_BYTES = 4_000
"""What is read at once, of all of them together and of one in TOML: its reader takes 40 ms at worst for as much."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """`name` is what one runs or types, `target` what that runs, `file` where it stands."""

    kind: str
    name: str
    target: str
    file: str


def entry_points(path: str, text: str) -> Iterator[EntryPoint]:
    """What the manifest at `path` declares; nothing for a file of another kind. Raises ValueError when it is broken."""
    read = _READERS.get(path.rpartition("/")[2])
    if read is not None:
        for kind, name, target in read(text):
            yield EntryPoint(kind, cut(name, _SAID), cut(target, _SAID), path)


def _pyproject(text: str) -> Iterator[tuple[str, str, str]]:
    document = tomllib.loads(text)
    for place in (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts")):
        for name, target in _table(document, *place).items():
            yield "python script", name, str(target)


def _package_json(text: str) -> Iterator[tuple[str, str, str]]:
    document = json.loads(text)
    package = document if isinstance(document, dict) else {}
    programs = package.get("bin")
    if isinstance(programs, str):
        yield "npm bin", str(package.get("name", "bin")), programs
    for name, target in _table(package, "bin").items():
        yield "npm bin", name, str(target)
    for key in ("main", "module"):
        if isinstance(package.get(key), str):
            yield f"npm {key}", str(package.get("name", key)), package[key]
    for name, target in _table(package, "scripts").items():
        yield "npm script", name, str(target)


def _makefile(text: str) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys(_target(line) for line in text.split("\n")):
        if name:
            yield "make target", name, f"make {name}"


def _target(line: str) -> str:
    """The target that a line of a makefile begins with; empty when it is no such line."""
    name, colon, rest = line.partition(":")
    name = name.rstrip(" \t")
    plain = name[:1].isalnum() and all(one.isalnum() or one in "_.-" for one in name)
    return name if colon and plain and not rest.startswith("=") else ""


def _cargo(text: str) -> Iterator[tuple[str, str, str]]:
    document = tomllib.loads(text)
    programs = document.get("bin")
    for program in programs if isinstance(programs, list) else ():
        if isinstance(program, dict):
            yield "cargo bin", str(program.get("name", "")), str(program.get("path", ""))
    package = _table(document, "package")
    if isinstance(package.get("name"), str):
        yield "cargo package", str(package["name"]), str(package.get("default-run", ""))


def _go_mod(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.split("\n"):
        match line.split(maxsplit=2):
            case ["module", name, *_] if line.startswith("module"):
                yield "go module", name, ""
                return


def _dockerfile(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.split("\n"):
        match line.split(maxsplit=1):
            case [word, target] if word.upper() in ("ENTRYPOINT", "CMD"):
                yield "container", word.upper(), target.rstrip()


def _table(document: Mapping[str, object], *place: str) -> Mapping[str, object]:
    """The table at a place of a document; empty when there is none, or something else."""
    here: object = document
    for key in place:
        here = here.get(key) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else {}


_READERS: Mapping[str, Callable[[str], Iterator[tuple[str, str, str]]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Makefile": _makefile,
    "makefile": _makefile,
    "GNUmakefile": _makefile,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "Dockerfile": _dockerfile,
    "Containerfile": _dockerfile,
}


class Manifests:
    """Reads one manifest after the other. `notes` gathers what could not be read, `found` what was declared."""

    def __init__(self, workspace: Workspace, stop: Event, *, seconds: float = SECONDS) -> None:
        self._workspace = workspace
        self._stop = stop
        self._seconds = seconds
        self._plain_bytes = _PLAIN_BYTES
        self.found: list[EntryPoint] = []
        self.notes: list[str] = []

    def read(self, paths: Sequence[str]) -> None:
        until = time.monotonic() + self._seconds
        with closing(Aside(reading, self._stop)) as aside:
            for number, path in enumerate(paths[:MAX_MANIFESTS]):
                if time.monotonic() > until or self._stop.is_set():
                    self.notes.append(f"{len(paths) - number:,} build files were not read: it took too long.")
                    return
                try:
                    self._declared(path, self._declarations(aside, path, _text(self._workspace, path)))
                except (PathError, OSError, ValueError, RecursionError, CutOff) as error:
                    self.notes.append(f"{display_path(path)} could not be read: {str(error)[:200]}")

    def _declarations(self, aside: Aside, path: str, text: str) -> Iterable[Sequence[str]]:
        if len(text) <= min(self._plain_bytes, _PLAIN_TOML_BYTES if path.endswith(".toml") else _PLAIN_BYTES):
            self._plain_bytes -= len(text)
            return declared(path, text)
        found: Iterable[Sequence[str]] = aside.ask({"path": path, "text": text}, _EACH_SECONDS)
        return found

    def _declared(self, path: str, found: Iterable[Sequence[str]]) -> None:
        starts = [EntryPoint(kind, name, target, path) for kind, name, target in found]
        self.found.extend(starts[:MAX_DECLARED])
        if len(starts) > MAX_DECLARED:
            self.notes.append(f"{display_path(path)} declares more than {MAX_DECLARED:,} entry points.")


def declared(path: str, text: str) -> list[tuple[str, str, str]]:
    """Kind, name and target of what the manifest at `path` declares. Raises ValueError and RecursionError."""
    return [(one.kind, one.name, one.target) for one in islice(entry_points(path, text), MAX_DECLARED + 1)]


def reading() -> Callable[[Any], object]:
    """What the process aside does."""

    def read(question: Any) -> object:
        try:
            return declared(question["path"], question["text"])
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error

    return read


def _text(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        data = read_up_to(file.fileno(), MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES:,} bytes")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
