"""Reading build files: a project's name, entry points and dependencies."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename
from typing import Any

from drone.models.offline.tool_output import Page
from mcc.rules.patterns import Pattern

_LONGEST = 50_000
_DOTS = 200
"""Bounds: characters read of a build file, and dots per line in TOML, whose parser takes quadratic time for them."""

_MODULE = Pattern(r"^module\s+(\S+)", lines=True)
_GO = Pattern(r"^go\s+(\S+)", lines=True)
_REQUIRED = Pattern(r"^[ \t]*(?:require +)?([\w.-]+\.\w+/\S+) +v\S+(.*)$", lines=True)
_TARGET = Pattern(r"^([A-Za-z][\w-]*)[ \t]*:(?:[^=]|$)", lines=True)
_BASE = Pattern(r"^FROM\s+(\S+)", lines=True, ignore_case=True)
_START = Pattern(r"^(?:ENTRYPOINT|CMD)\s+.+", lines=True, ignore_case=True)
_AC_INIT = Pattern(r"AC_INIT\(\s*\[?([\w.+-]+)\]?\s*(?:,\s*\[?([\w.+-]*)\]?)?")
_AC_FILES = Pattern(r"AC_CONFIG_FILES\(\s*\[?([^\])]*)")
_AM_MADE = Pattern(
    r"^(bin|lib|sbin|noinst)_(?:PROGRAMS|LTLIBRARIES|LIBRARIES|SCRIPTS)[ \t]*\+?=[ \t]*(.*)$", lines=True
)
_AM_KINDS = {"bin": "program", "sbin": "program", "lib": "library", "noinst": "not installed:"}
_AM_BELOW = Pattern(r"^SUBDIRS[ \t]*\+?=[ \t]*(.+)$", lines=True)
_AM_TESTS = Pattern(r"^(?:TESTS|check_PROGRAMS|check-local:)", lines=True)
_CMAKE_PROJECT = Pattern(r"^\s*project\s*\(\s*\"?([\w.+-]+)", lines=True, ignore_case=True)
_CMAKE_TARGETS = Pattern(r"^\s*add_(executable|library)\s*\(\s*([\w.+-]+)", lines=True, ignore_case=True)
_CMAKE_BELOW = Pattern(r"^\s*add_subdirectory\s*\(\s*([\w./+-]+)", lines=True, ignore_case=True)
_CMAKE_TESTS = Pattern(r"^\s*(?:enable_testing|add_test|include\s*\(\s*CTest)\b", lines=True, ignore_case=True)
_MESON_PROJECT = Pattern(r"^project\(\s*'([^']+)'", lines=True)
_MESON_MADE = Pattern(r"\b(executable|library|shared_library|static_library)\(\s*'([^']+)'")
_POM_ELEMENT = Pattern(r"<(artifactId|name|description)>([^<]*)</")
_POM_MODULES = Pattern(r"<module>([^<]*)</module>")
_GRADLE_MAIN = Pattern(r"\bmainClass(?:Name)?(?:\.set\()?\s*[=(]?\s*[\"']([\w.]+)[\"']")
_END_OF_NAME = Pattern(r"[\s<>=!~;\[(]")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of one build file. `starts`: lines about entry points, `facts`: other lines worth reporting.

    `builds` and `tests` are commands.
    """

    path: str
    name: str = ""
    description: str = ""
    starts: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


_COMMANDS: Mapping[str, tuple[str, str]] = {
    "setup.py": ("pip install -e .", ""),
    "Cargo.toml": ("cargo build", "cargo test"),
    "go.mod": ("go build ./...", "go test ./..."),
    "configure.ac": ("autoreconf -i && ./configure && make", ""),
    "CMakeLists.txt": ("cmake -B build && cmake --build build", ""),
    "pom.xml": ("mvn package", "mvn test"),
    "build.gradle": ("gradle build", "gradle test"),
    "build.gradle.kts": ("gradle build", "gradle test"),
}
"""(build command, test command) for a project with this file, whatever its content."""


def manifest(path: str, page: Page) -> Manifest:
    """Read a build file. For one that is cut short or unreadable, only its name and description are searched for."""
    file, text = basename(path), page.text[:_LONGEST]
    reader = _READERS.get(file)
    try:
        found = reader(path, text) if reader else Manifest(path)
    except (ValueError, TypeError, AttributeError, RecursionError):
        found = Manifest(path)
    if file in _COMMANDS:
        build, test = _COMMANDS[file]
        found = replace(found, builds=(build,), tests=(test,) if test else found.tests)
    return (
        found
        if found.name
        else replace(found, name=_first_group(_NAME, text), description=_first_group(_DESCRIPTION, text))
    )


def _toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError."""
    if any(line.count(".") > _DOTS for line in text.split("\n")):
        raise ValueError("there are too many dots in a line")
    return tomllib.loads(text)


def _pyproject(path: str, text: str) -> Manifest:
    document = _toml(text)
    project = _mapping(document.get("project")) or _mapping(_mapping(document.get("tool")).get("poetry"))
    scripts = _mapping(project.get("scripts"))
    needs = project.get("dependencies") or ()
    facts = [f"needs Python {project['requires-python']}"] if "requires-python" in project else []
    facts += _dependency_line([_END_OF_NAME.split(str(need), 1)[0] for need in needs])
    starts = tuple(f"command `{name}` → `{target}`" for name, target in scripts.items())
    name, tests = str(project.get("name", "")), ("pytest",) if "pytest" in text else ()
    builds = ("pip install -e .",) if name else ()
    return Manifest(path, name, str(project.get("description", "")), starts, tuple(facts), builds, tests)


def _package_json(path: str, text: str) -> Manifest:
    document = json.loads(text)
    programs = document.get("bin") or {}
    programs = {document.get("name", "it"): programs} if isinstance(programs, str) else _mapping(programs)
    starts = [f"command `{name}` → `{target}`" for name, target in programs.items()]
    if "/" not in path:
        starts += [f"`{key}` is `{document[key]}`" for key in ("main", "module") if isinstance(document.get(key), str)]
    scripts = _mapping(document.get("scripts"))
    facts = [f"npm scripts: {_in_backticks(list(scripts)[:10])}"] if scripts else []
    needs = _mapping(document.get("dependencies"))
    facts += _dependency_line(list(needs))
    return Manifest(
        path,
        str(document.get("name", "")),
        str(document.get("description", "")),
        tuple(starts),
        tuple(facts),
        ("npm install && npm run build" if "build" in scripts else "npm install",) if "/" not in path else (),
        (f"npm test (`{scripts['test']}`)",) if scripts.get("test") else (),
    )


def _cargo(path: str, text: str) -> Manifest:
    document = _toml(text)
    package = _mapping(document.get("package"))
    binaries = document.get("bin") or ()
    starts = tuple(
        f"binary `{one.get('name')}` → `{one.get('path', 'src/main.rs')}`" for one in map(_mapping, binaries)
    )
    members = _mapping(document.get("workspace")).get("members") or ()
    facts = [f"workspace of {len(members)} crates: {', '.join(members[:8])}"] if members else []
    needs = _mapping(document.get("dependencies"))
    facts += _dependency_line(list(needs))
    return Manifest(path, str(package.get("name", "")), str(package.get("description", "")), starts, tuple(facts))


def _go_mod(path: str, text: str) -> Manifest:
    version = _first_group(_GO, text)
    facts = [f"Go {version}"] if version else []
    facts += _dependency_line([found[1] for found in _REQUIRED.finditer(text) if "// indirect" not in found[2]])
    return Manifest(path, _first_group(_MODULE, text), facts=tuple(facts))


def _makefile(path: str, text: str) -> Manifest:
    targets = list(dict.fromkeys(_TARGET.findall(text)))
    tests = tuple(f"make {name}" for name in ("test", "tests", "check") if name in targets)
    return Manifest(path, facts=(f"targets: {_in_backticks(targets[:12])}",) if targets else (), tests=tests[:1])


def _configure_ac(path: str, text: str) -> Manifest:
    found = _AC_INIT.search(text)
    headers = _AC_FILES.search(text)
    facts = [f"version {found[2]}"] if found and found[2] else []
    facts += [f"writes {_in_backticks(headers[1].split()[:8])}"] if headers else []
    return Manifest(path, found[1] if found else "", facts=tuple(facts))


def _makefile_am(path: str, text: str) -> Manifest:
    joined = text.replace("\\\n", " ")
    made = [(found[1], name) for found in _AM_MADE.finditer(joined) for name in found[2].split() if "$" not in name]
    folder = path.removesuffix("Makefile.am")
    starts = tuple(f"{_AM_KINDS[kind]} `{name}` (from `{folder or './'}`)" for kind, name in made)
    below = _AM_BELOW.search(joined)
    facts = [f"goes down into {_in_backticks(below[1].split()[:8])}"] if below else []
    return Manifest(path, starts=starts, facts=tuple(facts), tests=("make check",) if _AM_TESTS.search(joined) else ())


def _cmake(path: str, text: str) -> Manifest:
    starts = tuple(f"{_target_kind(found[1])} `{found[2]}`" for found in _CMAKE_TARGETS.finditer(text))[:12]
    below = _CMAKE_BELOW.findall(text)
    facts = (f"goes down into {_in_backticks(below[:8])}",) if below else ()
    tests = ("ctest --test-dir build",) if _CMAKE_TESTS.search(text) else ()
    return Manifest(path, _first_group(_CMAKE_PROJECT, text), "", starts, facts, (), tests)


def _meson(path: str, text: str) -> Manifest:
    name = _first_group(_MESON_PROJECT, text)
    starts = tuple(f"{_target_kind(found[1])} `{found[2]}`" for found in _MESON_MADE.finditer(text))[:12]
    builds = ("meson setup build && meson compile -C build",) if name else ()
    return Manifest(path, name, "", starts, (), builds, ("meson test -C build",))


def _pom(path: str, text: str) -> Manifest:
    """The project's own name is outside the elements for parents and dependencies."""
    for part in ("parent", "dependencies", "build", "dependencyManagement", "profiles", "reporting", "developers"):
        begin, end = text.find(f"<{part}>"), text.find(f"</{part}>")
        if 0 <= begin < end:
            text = text[:begin] + text[end:]
    elements = {found[1]: " ".join(found[2].split()) for found in _POM_ELEMENT.finditer(text)}
    modules = _POM_MODULES.findall(text)
    facts = (f"{len(modules)} modules: {_in_backticks(modules[:8])}",) if modules else ()
    return Manifest(path, elements.get("artifactId", ""), elements.get("description", ""), facts=facts)


def _gradle(path: str, text: str) -> Manifest:
    main = _first_group(_GRADLE_MAIN, text)
    return Manifest(path, starts=(f"main class `{main}`",) if main else ())


def _dockerfile(path: str, text: str) -> Manifest:
    bases, starts = _BASE.findall(text), _START.findall(text)
    return Manifest(
        path, facts=(f"image from `{bases[0]}`",) if bases else (), starts=tuple(f"`{line}`" for line in starts)
    )


_READERS: Mapping[str, Callable[[str, str], Manifest]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "composer.json": _package_json,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "Makefile": _makefile,
    "Makefile.am": _makefile_am,
    "CMakeLists.txt": _cmake,
    "configure.ac": _configure_ac,
    "meson.build": _meson,
    "pom.xml": _pom,
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    "Dockerfile": _dockerfile,
}

_NAME = Pattern(r"""(?:^|\n|[{,(])[^\S\n]*["']?name["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,100})["']""")
_DESCRIPTION = Pattern(r"""(?:^|\n|[{,(])[^\S\n]*["']?description["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,300})["']""")


def _first_group(pattern: Pattern, text: str) -> str:
    """The first group of the first match; empty without a match."""
    found = pattern.search(text)
    return found[1] if found else ""


def _target_kind(kind: str) -> str:
    return "program" if kind.lower() == "executable" else "library"


def _in_backticks(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _dependency_line(names: Sequence[str]) -> list[str]:
    """A line about direct dependencies, if there are any."""
    if not names:
        return []
    return [f"{len(names)} direct {'dependency' if len(names) == 1 else 'dependencies'}: {', '.join(names[:8])}"]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
