"""The parts of a program, their dependencies, and which files to read first and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, commonpath, dirname

from drone.models.offline.imports import Graph
from drone.models.offline.languages import depth_of, is_document, is_test, language_of
from drone.models.offline.survey import Survey

_ENOUGH_PARTS = 5
_DEEPEST = 6
_MOST = 10
_FRONTS = frozenset({"__init__.py", "lib.rs", "doc.go", "index.js", "index.ts"})
_GUIDES = ("architecture", "hacking", "contributing", "design", "development")


@dataclass(frozen=True, slots=True)
class Parts:
    """Directories that use each other, or single files if there are few directories; `base` is their common directory.

    `uses` and `users` list the other parts, those with the most files involved first.
    """

    base: str
    uses: Mapping[str, tuple[str, ...]]
    users: Mapping[str, tuple[str, ...]]

    def by_use(self) -> list[str]:
        """All parts, most used first."""
        names = {*self.uses, *self.users}
        return sorted(names, key=lambda one: (-len(self.users.get(one, ())), -len(self.uses.get(one, ())), one))

    def mutual(self) -> list[tuple[str, str]]:
        """Pairs of parts that use each other."""
        pairs = ((one, other) for one in sorted(self.uses) for other in self.uses[one] if one < other)
        return [(one, other) for one, other in pairs if one in self.uses.get(other, ())]


def parts_of(graph: Graph) -> Parts:
    """The coarsest division that has enough parts; single files at the finest."""
    edges = [(user, used) for user, found in graph.uses.items() for used in found]
    paths = [path for edge in edges for path in edge]
    base = commonpath([dirname(path) for path in paths]) if paths else ""
    start = base.count("/") + 1 if base else 0
    parts = Parts(base, {}, {})
    for depth in range(start + 1, start + _DEEPEST):
        parts = _parts_at(base, edges, depth)
        if len(parts.by_use()) >= _ENOUGH_PARTS:
            break
    return parts


def _parts_at(base: str, edges: Sequence[tuple[str, str]], depth: int) -> Parts:
    uses: dict[str, dict[str, int]] = {}
    users: dict[str, dict[str, int]] = {}
    for user, used in edges:
        one, other = _part(user, depth), _part(used, depth)
        if one != other:
            uses.setdefault(one, {})[other] = uses.get(one, {}).get(other, 0) + 1
            users.setdefault(other, {})[one] = users.get(other, {}).get(one, 0) + 1
    return Parts(base, _ordered(uses), _ordered(users))


def _ordered(counted: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
    """Files that only re-export others come last."""

    def weight(one: str, other: str) -> tuple[bool, int, str]:
        return (basename(other) in _FRONTS, -counted[one][other], other)

    return {one: tuple(sorted(found, key=lambda other: weight(one, other))) for one, found in counted.items()}


def _part(path: str, depth: int) -> str:
    """A Go package is a directory, so its files are never parts of their own."""
    steps = path.split("/")
    if path.endswith(".go"):
        return "/".join(steps[:-1][:depth]) + "/"
    return path if len(steps) <= depth else "/".join(steps[:depth]) + "/"


def to_read(known: Survey, graph: Graph, starts: Sequence[str]) -> list[tuple[str, str]]:
    """Up to ten files, each with the reason to read it, the most informative first. `starts`: entry files."""
    found: dict[str, str] = {}
    for path, why in _candidates(known, graph, starts):
        found.setdefault(path, why)
    return list(found.items())[:_MOST]


def _candidates(known: Survey, graph: Graph, starts: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((path, "what it says of itself") for path in known.readmes[:1])
    yield from ((path, "how it is built and what it needs") for path in known.build_files[:1])
    yield from ((path, "how it presents itself to who imports it") for path in package_fronts(known)[:1])
    yield from ((path, "a program begins here") for path in starts[:2])
    used = [path for path in graph.most_used() if basename(path) not in _FRONTS]
    for path in used[:4]:
        if len(graph.users[path]) > 1:
            yield path, f"used by {len(graph.users[path])} other files"
    joined = sorted(graph.uses, key=lambda path: (-len(graph.uses[path]), path))
    for path in joined[:2]:
        if len(graph.uses[path]) > 1:
            yield path, f"brings {len(graph.uses[path])} other files together"
    yield from ((path, "shows how it is used: a test") for path in useful_tests(known)[:1])
    yield from ((path, "for whoever changes it") for path in contributor_docs(known)[:1])
    for path, number in largest(known)[:_MOST]:
        yield path, f"{number} public names" if number > 1 else "one of its sources"


def useful_tests(known: Survey) -> list[str]:
    """Tests in the program's languages whose names say so, the shallowest first."""
    names = {language.name for language in known.languages}
    found = [path for path in known.tests if (language := language_of(path)) and language.name in names]
    called = [path for path in found if is_test(basename(path)) and not path.endswith("conftest.py")]
    return sorted(called or found, key=lambda path: (depth_of(path), path))


def package_fronts(known: Survey) -> list[str]:
    """Files that present a package as a whole, the shallowest first."""
    found = [path for path in known.own if basename(path) in _FRONTS]
    return sorted(found, key=lambda path: (depth_of(path), path))


def contributor_docs(known: Survey) -> list[str]:
    """Documents for contributors, the shallowest first."""
    found = [path for path in known.files if is_document(path) and basename(path).lower().startswith(_GUIDES)]
    return sorted(found, key=lambda path: (depth_of(path), path))


def largest(known: Survey) -> list[tuple[str, int]]:
    """The program's own files with the number of definitions found in each, most first."""
    counts = dict.fromkeys(known.own, 0)
    for language in known.languages:
        for hit in known.found(language.public):
            if hit.path in counts:
                counts[hit.path] += 1
    return sorted(counts.items(), key=lambda counted: (-counted[1], depth_of(counted[0]), counted[0]))
