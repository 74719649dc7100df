"""The modules of both packages and what each imports, read from their own import statements."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> tuple[tuple[str, Path], ...]:
    paths = [path for package in ("mcc", "drone") for path in sorted((ROOT / package).rglob("*.py"))]
    return tuple((module_of(path), path) for path in paths)


def imports_of(path: Path) -> set[str]:
    """What is imported anywhere in the file, imports for types and in functions counted."""
    return {module for module, _ in _statements(path)}


def imported_modules(path: Path, known: set[str]) -> set[str]:
    """Those of `known` that the file imports; `from package import module` is an import of the module."""
    named = {f"{module}.{name}" if f"{module}.{name}" in known else module for module, name in _statements(path)}
    return named & known


@cache
def _statements(path: Path) -> frozenset[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.update((node.module, alias.name) for alias in node.names)
    return frozenset(found)
