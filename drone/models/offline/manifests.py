"""Build files: what a project calls itself, what it starts, what it needs."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.models.offline.material import Page
from mcc.rules.patterns import Pattern

_LONGEST = 50_000
_DOTS = 200
"""Characters of a build file that are looked at, and dots in a line of one in TOML: its reader counts them squared."""

_MODULE = Pattern(r"^module\s+(\S+)", lines=True)
_GO = Pattern(r"^go\s+(\S+)", lines=True)
_REQUIRED = Pattern(r"^[ \t]*(?:require +)?([\w.-]+\.\w+/\S+) +v\S+(.*)$", lines=True)
_SAID = Pattern(r"^(name|description)[ \t]*=[ \t]*(\S.*?)[ \t\r]*$", lines=True)
_TARGET = Pattern(r"^([A-Za-z][\w-]*)[ \t]*:(?:[^=]|$)", lines=True)
_BASE = Pattern(r"^FROM\s+(\S+)", lines=True, ignore_case=True)
_START = Pattern(r"^(?:ENTRYPOINT|CMD)\s+.+", lines=True, ignore_case=True)
_END_OF_NAME = Pattern(r"[\s<>=!~;\[(]")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one build file says. `starts` are lines about what it starts, `facts` other lines worth telling."""

    path: str
    name: str = ""
    description: str = ""
    starts: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def manifest(path: str, page: Page) -> Manifest:
    """Read a build file; one that is cut short or unreadable still gives its name where that can be seen."""
    reader, text = _READERS.get(path.rsplit("/", 1)[-1]), page.text[:_LONGEST]
    try:
        found = reader(path, text) if reader else Manifest(path)
    except (ValueError, TypeError, AttributeError, RecursionError):
        found = Manifest(path)
    return found if found.name else Manifest(path, _named(text), _described(text), found.starts, found.facts)


def _toml(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    if any(line.count(".") > _DOTS for line in text.split("\n")):
        raise ValueError("there are too many dots in a line")
    return tomllib.loads(text)


def _pyproject(path: str, text: str) -> Manifest:
    document = _toml(text)
    project = _mapping(document.get("project")) or _mapping(_mapping(document.get("tool")).get("poetry"))
    scripts = _mapping(project.get("scripts"))
    needs = project.get("dependencies") or ()
    facts = [f"needs Python {project['requires-python']}"] if "requires-python" in project else []
    facts += _needs([_package(need) for need in needs])
    starts = tuple(f"command `{name}` → `{target}`" for name, target in scripts.items())
    return Manifest(path, str(project.get("name", "")), str(project.get("description", "")), starts, tuple(facts))


def _package_json(path: str, text: str) -> Manifest:
    document = json.loads(text)
    programs = document.get("bin") or {}
    programs = {document.get("name", "it"): programs} if isinstance(programs, str) else _mapping(programs)
    starts = [f"command `{name}` → `{target}`" for name, target in programs.items()]
    starts += [f"`{key}` is `{document[key]}`" for key in ("main", "module") if isinstance(document.get(key), str)]
    scripts = _mapping(document.get("scripts"))
    facts = [f"npm scripts: {', '.join(f'`{name}`' for name in list(scripts)[:10])}"] if scripts else []
    needs = _mapping(document.get("dependencies"))
    facts += _needs(list(needs))
    return Manifest(
        path, str(document.get("name", "")), str(document.get("description", "")), tuple(starts), tuple(facts)
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
    facts += _needs(list(needs))
    name = package.get("name", "")
    return Manifest(path, str(name), str(package.get("description", "")), starts, tuple(facts))


def _go_mod(path: str, text: str) -> Manifest:
    module, version = _MODULE.search(text), _GO.search(text)
    needs = [found[1] for found in _REQUIRED.finditer(text) if "// indirect" not in found[2]]
    facts = [f"Go {version[1]}"] if version else []
    facts += _needs(needs)
    return Manifest(path, module[1] if module else "", facts=tuple(facts))


def _setup_cfg(path: str, text: str) -> Manifest:
    said = {found[1]: found[2] for found in _SAID.finditer(text)}
    return Manifest(path, said.get("name", ""), said.get("description", ""))


def _makefile(path: str, text: str) -> Manifest:
    targets = list(dict.fromkeys(_TARGET.findall(text)))
    return Manifest(path, facts=(f"targets: {', '.join(f'`{name}`' for name in targets[:12])}",) if targets else ())


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
    "setup.cfg": _setup_cfg,
    "Makefile": _makefile,
    "Dockerfile": _dockerfile,
}

_NAME = Pattern(r"""(?:^|\n|[{,(])[^\S\n]*["']?name["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,100})["']""")
_DESCRIPTION = Pattern(r"""(?:^|\n|[{,(])[^\S\n]*["']?description["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,300})["']""")


def _named(text: str) -> str:
    found = _NAME.search(text)
    return found[1] if found else ""


def _described(text: str) -> str:
    found = _DESCRIPTION.search(text)
    return found[1] if found else ""


def _package(requirement: object) -> str:
    return _END_OF_NAME.split(str(requirement), 1)[0]


def _needs(names: Sequence[str]) -> list[str]:
    """A line about direct dependencies, if there are any."""
    if not names:
        return []
    return [f"{len(names)} direct {'dependency' if len(names) == 1 else 'dependencies'}: {', '.join(names[:8])}"]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
