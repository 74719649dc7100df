"""The entry points that a workspace's manifests declare; large manifests are parsed in a separate process."""

import json
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any

from drone.sandbox.places.paths import PathError, Workspace
from drone.tools.files.walk import read_up_to
from drone.tools.frame.display_text import cut, display_path
from mcc.side_process import CutOff, SideProcess

_MAX_LENGTH = 300

MAX_BYTES = 256_000
MAX_MANIFESTS = 100
MAX_DECLARED = 1_000
"""Limits: bytes of a manifest that is read, manifests that are read, entry points listed of each."""

SECONDS = 10.0
"""How long reading all manifests may take."""

_EACH_SECONDS = 1.0
_PLAIN_BYTES = 64_000
_PLAIN_TOML_BYTES = 4_000
"""Bytes parsed in this process: of all manifests together, and of one in TOML, whose parser needs up to 40 ms for so
much."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A way to start a project: `name` is what one types, `target` what that runs, `file` the manifest."""

    kind: str
    name: str
    target: str
    file: str


def entry_points(path: str, text: str) -> Iterator[EntryPoint]:
    """The entry points in the manifest at `path`; none if it is no known manifest. Raises ValueError if malformed."""
    read = _READERS.get(path.rpartition("/")[2])
    if read is not None:
        for kind, name, target in read(text):
            yield EntryPoint(kind, cut(name, _MAX_LENGTH), cut(target, _MAX_LENGTH), path)


def _pyproject(text: str) -> Iterator[tuple[str, str, str]]:
    document = tomllib.loads(text)
    for keys in (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts")):
        for name, target in _table(document, *keys).items():
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
    """The target that a makefile's line declares; empty if it declares none."""
    name, colon, rest = line.partition(":")
    name = name.rstrip(" \t")
    plain = name[:1].isalnum() and all(char.isalnum() or char in "_.-" for char in name)
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


def _table(document: Mapping[str, object], *keys: str) -> Mapping[str, object]:
    """The table under these nested keys; empty if there is no table."""
    value: object = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


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
    """Reads manifests; `found` collects their entry points, `notes` sentences on what could not be read."""

    def __init__(self, workspace: Workspace, stop: Event, *, seconds: float = SECONDS) -> None:
        self._workspace = workspace
        self._stop = stop
        self._seconds = seconds
        self._plain_bytes = _PLAIN_BYTES
        self.found: list[EntryPoint] = []
        self.notes: list[str] = []

    def read(self, paths: Sequence[str]) -> None:
        until = time.monotonic() + self._seconds
        with closing(SideProcess(manifest_reader, self._stop)) as aside:
            for number, path in enumerate(paths[:MAX_MANIFESTS]):
                if time.monotonic() > until or self._stop.is_set():
                    self.notes.append(f"{len(paths) - number:,} build files were not read: it took too long.")
                    return
                try:
                    self._add(path, self._declarations(aside, path, _text(self._workspace, path)))
                except (PathError, OSError, ValueError, RecursionError, CutOff) as error:
                    self.notes.append(f"{display_path(path)} could not be read: {str(error)[:200]}")

    def _declarations(self, aside: SideProcess, path: str, text: str) -> Iterable[Sequence[str]]:
        if len(text) <= min(self._plain_bytes, _PLAIN_TOML_BYTES if path.endswith(".toml") else _PLAIN_BYTES):
            # Counted over all manifests: many small ones take as long as a large one.
            self._plain_bytes -= len(text)
            return declarations(path, text)
        found: Iterable[Sequence[str]] = aside.ask({"path": path, "text": text}, _EACH_SECONDS)
        return found

    def _add(self, path: str, found: Iterable[Sequence[str]]) -> None:
        starts = [EntryPoint(kind, name, target, path) for kind, name, target in found]
        self.found.extend(starts[:MAX_DECLARED])
        if len(starts) > MAX_DECLARED:
            self.notes.append(f"{display_path(path)} declares more than {MAX_DECLARED:,} entry points.")


def declarations(path: str, text: str) -> list[tuple[str, str, str]]:
    """Kind, name and target of each entry point in the manifest at `path`. Raises ValueError and RecursionError."""
    return [(point.kind, point.name, point.target) for point in islice(entry_points(path, text), MAX_DECLARED + 1)]


def manifest_reader() -> Callable[[Any], object]:
    """The function that the separate process runs: from a manifest's path and text to its `declarations`."""

    def read(question: Any) -> object:
        try:
            return declarations(question["path"], question["text"])
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error

    return read


def _text(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        data = read_up_to(file.fileno(), MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES:,} bytes")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
