"""The import graph of a workspace: lines that import something, resolved to files per language."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import basename
from typing import TypeAlias

from drone.models.offline.languages import language_of
from drone.models.offline.tool_output import Hit
from mcc.rules.patterns import Pattern

_PYTHON = Pattern(r"^\s*(?:from\s+(?P<module>[.\w]+)\s+import\s+(?P<names>.*)|import\s+(?P<modules>.*))$")
_QUOTED = Pattern(r"[\"'<](?P<target>[^\"'<>]+)[\"'>]")
_RUST = Pattern(r"^\s*(?:pub(?:\([a-z]+\))?\s+)?(?:use\s+(?P<path>[\w:]+)|mod\s+(?P<module>\w+))")
_JAVA = Pattern(r"^import (?:static )?(?P<name>[\w.]+)")
_WORDS = Pattern(r"\w+")
_LONGEST = 500
_SCRIPTS = (".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".mts")

Resolve: TypeAlias = Callable[["Tree", str, str], Iterator[str]]
"""(all files, importing file, its line) -> paths that the line may refer to, whether or not they exist."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a workspace by path and by name. `module`: the module name in `go.mod`."""

    files: frozenset[str]
    by_name: Mapping[str, tuple[str, ...]]
    go_files: Mapping[str, str]
    module: str = ""

    @classmethod
    def of(cls, files: Iterable[str], module: str = "") -> "Tree":
        """Go imports directories; each is represented by one of its files: `doc.go`, the file named after it, or the
        first."""
        by_name: dict[str, list[str]] = {}
        go_files: dict[str, str] = {}
        for path in sorted(files):
            by_name.setdefault(basename(path), []).append(path)
            if path.endswith(".go"):
                folder = _parent(path)
                if folder not in go_files or path.endswith(("/doc.go", f"/{folder.rsplit('/', 1)[-1]}.go")):
                    go_files[folder] = path
        return cls(frozenset(files), {name: tuple(paths) for name, paths in by_name.items()}, go_files, module)

    def ending(self, path: str) -> Iterator[str]:
        """The only file whose path ends with `path`; nothing if several do, as they cannot be told apart."""
        found = [one for one in self.by_name.get(basename(path), ()) if one == path or one.endswith("/" + path)]
        if len(found) == 1:
            yield found[0]


@dataclass(frozen=True, slots=True)
class Graph:
    """The files that each file uses (`uses`), and the files that use it (`users`)."""

    uses: Mapping[str, tuple[str, ...]]
    users: Mapping[str, tuple[str, ...]]

    def most_used(self) -> list[str]:
        return sorted(self.users, key=lambda path: (-len(self.users[path]), path))


def graph(hits: Iterable[Hit], files: Iterable[str], module: str = "") -> Graph:
    """The graph of the import lines in search hits. `module`: the name of the Go module."""
    tree = Tree.of(files, module)
    uses: dict[str, dict[str, None]] = {}
    users: dict[str, dict[str, None]] = {}
    for hit in hits:
        language = language_of(hit.path)
        resolve = _RESOLVERS.get(language.name) if language else None
        for path in resolve(tree, hit.path, hit.text[:_LONGEST]) if resolve else ():
            if path in tree.files and path != hit.path:
                uses.setdefault(hit.path, {})[path] = None
                users.setdefault(path, {})[hit.path] = None
    return Graph(
        {path: tuple(found) for path, found in uses.items()}, {path: tuple(found) for path, found in users.items()}
    )


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] if "/" in path else ""


def _joined(folder: str, target: str) -> str:
    """`target` relative to `folder`, without `..`; empty when it leaves the workspace."""
    parts = [part for part in folder.split("/") if part]
    for part in target.split("/"):
        if part == ".." and not parts:
            return ""
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _python(tree: Tree, path: str, line: str) -> Iterator[str]:
    found = _PYTHON.match(line)
    if not found:
        return
    names = _imported(found["names"] or "")
    modules = [found["module"]] if found["module"] else [name.split(" ", 1)[0] for name in _listed(found["modules"])]
    for module in modules:
        dots = len(module) - len(module.lstrip("."))
        inner = module.lstrip(".").replace(".", "/")
        if dots:
            folder = path
            for _ in range(dots):
                folder = _parent(folder)
            yield from _python_module(tree, _joined(folder, inner), names)
        else:
            for root in _roots(path):
                yield from _python_module(tree, _joined(root, inner), names)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split("#", 1)[0].split(",") if part.strip()]


def _imported(text: str) -> list[str]:
    return [word for word in _WORDS.findall(text.split("#", 1)[0]) if word != "as"]


def _roots(path: str) -> Iterator[str]:
    """Directories that absolute imports of a file may start from: the root, `src`, and those above the file."""
    folders = [str(one) for one in PurePosixPath(path).parents if str(one) != "."]
    yield from dict.fromkeys(("", "src", *folders[1:]))


def _python_module(tree: Tree, module: str, names: Iterable[str]) -> Iterator[str]:
    """Files of a module. If the imported names are submodules, these count instead of their package."""
    inner = [
        path for name in names for path in (f"{module}/{name}.py", f"{module}/{name}/__init__.py") if path in tree.files
    ]
    if inner:
        yield from inner
        return
    for path in (f"{module}.py", f"{module}/__init__.py"):
        if path in tree.files:
            yield path
            return


def _script(tree: Tree, path: str, line: str) -> Iterator[str]:
    for found in _QUOTED.finditer(line):
        if found["target"].startswith("."):
            target = _joined(_parent(path), found["target"])
            bare = target.rsplit(".", 1)[0] if target.endswith((".js", ".mjs", ".cjs", ".jsx")) else target
            tried = (target, *(bare + suffix for suffix in _SCRIPTS), *(f"{target}/index{end}" for end in _SCRIPTS))
            yield from [one for one in tried if one in tree.files][:1]


def _go(tree: Tree, path: str, line: str) -> Iterator[str]:
    found = _QUOTED.search(line)
    target = found["target"] if found else ""
    if tree.module and (target == tree.module or target.startswith(tree.module + "/")):
        first = tree.go_files.get(target[len(tree.module) :].strip("/"))
        if first:
            yield first


def _rust(tree: Tree, path: str, line: str) -> Iterator[str]:
    found = _RUST.match(line)
    if not found:
        return
    own = _parent(path) if path.endswith(("/mod.rs", "/lib.rs", "/main.rs")) else path.removesuffix(".rs")
    if found["module"]:
        yield from _rust_module(tree, own, [found["module"]])
        return
    folder, steps = own, [step for step in found["path"].split("::") if step]
    if steps[:1] == ["crate"]:
        folder = path.split("/src/", 1)[0] + "/src" if "/src/" in path else "src"
    while steps and steps[0] == "super":
        folder = _parent(folder)
        del steps[0]
    yield from _rust_module(tree, folder, steps[1:] if steps[:1] in (["crate"], ["self"]) else steps)


def _rust_module(tree: Tree, folder: str, steps: list[str]) -> Iterator[str]:
    """The longest prefix of the path that is a file; the steps after it are names in the file."""
    for length in range(len(steps), 0, -1):
        bare = "/".join([folder, *steps[:length]] if folder else steps[:length])
        for path in (f"{bare}.rs", f"{bare}/mod.rs"):
            if path in tree.files:
                yield path
                return


def _c(tree: Tree, path: str, line: str) -> Iterator[str]:
    found = _QUOTED.search(line)
    if found:
        near = _joined(_parent(path), found["target"])
        yield from (near,) if near in tree.files else tree.ending(_joined("", found["target"]))


def _java(tree: Tree, path: str, line: str) -> Iterator[str]:
    found = _JAVA.match(line)
    if found:
        steps = found["name"].strip(".").split(".")
        for length in (len(steps), len(steps) - 1):
            if length > 1:
                yield from tree.ending("/".join(steps[:length]) + ".java")


_RESOLVERS: Mapping[str, Resolve] = {
    "Python": _python,
    "JavaScript": _script,
    "TypeScript": _script,
    "Go": _go,
    "Rust": _rust,
    "C": _c,
    "C++": _c,
    "Java": _java,
}
