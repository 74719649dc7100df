"""This room is for build files: what a project calls itself, what it starts, what it needs."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.models.offline.material import Page


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
    reader = _READERS.get(path.rsplit("/", 1)[-1])
    try:
        found = reader(path, page.text) if reader else Manifest(path)
    except (ValueError, TypeError, AttributeError):
        found = Manifest(path)
    return found if found.name else Manifest(path, _named(page.text), _described(page.text), found.starts, found.facts)


def _pyproject(path: str, text: str) -> Manifest:
    document = tomllib.loads(text)
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
    document = tomllib.loads(text)
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
    module = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    version = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    needs = re.findall(r"^[ \t]*(?:require +)?([\w.-]+\.\w+/\S+) +v\S+(?!.*// indirect)", text, re.MULTILINE)
    facts = [f"Go {version[1]}"] if version else []
    facts += _needs(needs)
    return Manifest(path, module[1] if module else "", facts=tuple(facts))


def _setup_cfg(path: str, text: str) -> Manifest:
    said = dict(re.findall(r"^(name|description)\s*=\s*(\S.*?)\s*$", text, re.MULTILINE))
    return Manifest(path, said.get("name", ""), said.get("description", ""))


def _makefile(path: str, text: str) -> Manifest:
    targets = list(dict.fromkeys(re.findall(r"^([A-Za-z][\w-]*)[ \t]*:(?!=)", text, re.MULTILINE)))
    return Manifest(path, facts=(f"targets: {', '.join(f'`{name}`' for name in targets[:12])}",) if targets else ())


def _dockerfile(path: str, text: str) -> Manifest:
    bases = re.findall(r"^FROM\s+(\S+)", text, re.MULTILINE | re.IGNORECASE)
    starts = re.findall(r"^(?:ENTRYPOINT|CMD)\s+.+", text, re.MULTILINE | re.IGNORECASE)
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

_NAME = re.compile(r"""(?:^|\n|[{,(])[^\S\n]*["']?name["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,100})["']""")
_DESCRIPTION = re.compile(
    r"""(?:^|\n|[{,(])[^\S\n]*["']?description["']?[^\S\n]*[:=][^\S\n]*["']([^"'\n]{1,300})["']"""
)


def _named(text: str) -> str:
    found = _NAME.search(text)
    return found[1] if found else ""


def _described(text: str) -> str:
    found = _DESCRIPTION.search(text)
    return found[1] if found else ""


def _package(requirement: object) -> str:
    return re.split(r"[\s<>=!~;\[(]", str(requirement), maxsplit=1)[0]


def _needs(names: Sequence[str]) -> list[str]:
    """A line about direct dependencies, if there are any."""
    if not names:
        return []
    return [f"{len(names)} direct {'dependency' if len(names) == 1 else 'dependencies'}: {', '.join(names[:8])}"]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
