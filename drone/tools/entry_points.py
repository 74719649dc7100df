"""This room is for how a project is started: what its manifests declare as scripts, commands, targets and programs."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_SAID = 300


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
            yield EntryPoint(kind, name[:_SAID], target[:_SAID], path)


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
