"""One meaning per name: a public class name stands in one module of both packages, so that nobody has to look at the
imports to know which `Refused` an `except` means."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping

from scripts.sync_client import FILES as TWINS
from tests.architecture.imports import modules

BOTH_PUBLIC = "users import either from a package of its own, and both are what one expects there"
DEMANDED = "Celery looks for a class of this name within the class that extends its own"

REPEATED = {
    "Blueprint": (DEMANDED, {"mcc.documents.blueprint", "drone.worker.components"}),
    "Models": (BOTH_PUBLIC, {"mcc.client.async_fleet", "drone.models.registry"}),
}
"""By name: why it may be repeated, and where. The blocking client is written out of the awaited one, so its classes
have the same names, and are left out here."""


VAGUE = {"found", "one", "own", "given", "there", "whole"}
"""Words that fit any value: a local variable of a function that does not fit in one look says what it holds."""

SHORT_LINES = 8
VAGUE_LOCALS = 69
"""How many there still are. Lower it with each that gets its noun; it never rises."""


def repeated(sources: Iterable[tuple[str, str]]) -> Mapping[str, set[str]]:
    """The modules of each public class name that several of these define, by name; `sources`: module and its text.

    Classes within classes and functions count too.
    """
    homes: dict[str, set[str]] = defaultdict(set)
    for module, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module)
    return {name: where for name, where in homes.items() if len(where) > 1}


def test_a_public_class_name_stands_in_one_module() -> None:
    written = {path.resolve() for path in TWINS.values()}
    sources = [(module, path.read_text("utf-8")) for module, path in modules() if path.resolve() not in written]
    assert repeated(sources) == {name: where for name, (_, where) in REPEATED.items()}


def test_a_class_name_is_seen_wherever_it_is_defined_again() -> None:
    once = ("mcc.one", "class Refused(Exception): ...\nclass _Own: ...")
    assert not repeated([once, ("mcc.two", "class StoreRefused(Exception): ...\nclass _Own: ...")])
    assert repeated([once, ("mcc.two", "class Refused: ...")]) == {"Refused": {"mcc.one", "mcc.two"}}
    assert repeated([once, ("mcc.two", "class Outer:\n    class Refused: ...")]) == {"Refused": {"mcc.one", "mcc.two"}}


def vague_locals(text: str) -> list[str]:
    """The vague names that functions of more than `SHORT_LINES` lines bind, once per function; inner functions are
    functions of their own."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    long = (node for node in functions if (node.end_lineno or node.lineno) - node.lineno + 1 > SHORT_LINES)
    return [name for function in long for name in sorted(_bound(function) & VAGUE)]


def _bound(function: ast.AST) -> set[str]:
    inner = list(ast.iter_child_nodes(function))
    bound: set[str] = set()
    while inner:
        node = inner.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.extend(ast.iter_child_nodes(node))
    return bound


def test_fewer_and_fewer_locals_have_a_name_that_fits_any_value() -> None:
    assert sum(len(vague_locals(path.read_text("utf-8"))) for _, path in modules()) <= VAGUE_LOCALS


def test_a_vague_local_is_counted_once_in_the_function_that_binds_it() -> None:
    body = "\n".join(f"    line{number} = {number}" for number in range(SHORT_LINES))
    assert vague_locals(f"def read():\n{body}\n    found = [one for one in []]\n    found = 1") == ["found", "one"]
    assert not vague_locals("def read():\n    found = 1\n    return found")
    assert not vague_locals(f"def read():\n{body}\n    def inner():\n        found = 1")
