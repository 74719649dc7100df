"""What a reader has to hold at once stays small: a module, a function, what a constructor takes."""

import ast
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from tests.architecture.imports import modules

MODULE_LINES = 400
FUNCTION_LINES = 60
ARGUMENTS = 6
"""Of a constructor, `self` not counted."""

SMALL_BODY = 3
SMALL_HELPERS = 389
"""Private helpers with a body of at most `SMALL_BODY` lines that are used once. Each is a hop for the reader, and earns
it by a name that says more than its body. Lower the number with each that is written where it is used."""


class Size(NamedTuple):
    name: str
    lines: int
    arguments: int


@cache
def functions() -> dict[str, Size]:
    """By module, name and line."""
    return {
        f"{module}:{node.name}:{node.lineno}": Size(
            node.name,
            (node.end_lineno or node.lineno) - node.lineno + 1,
            len(node.args.args) + len(node.args.kwonlyargs),
        )
        for module, path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_module_is_too_long() -> None:
    lines = {module: path.read_text("utf-8").count("\n") for module, path in modules()}
    assert not {module: count for module, count in lines.items() if count > MODULE_LINES}


def test_no_function_is_too_long() -> None:
    assert not {name: one.lines for name, one in functions().items() if one.lines > FUNCTION_LINES}


def test_no_constructor_takes_too_much() -> None:
    taken = {name: one.arguments - 1 for name, one in functions().items() if one.name == "__init__"}
    assert not {name: count for name, count in taken.items() if count > ARGUMENTS}


def small_helpers(text: str) -> list[str]:
    """The private functions of a module's text that it names once beside their definition, and that have a body of at
    most `SMALL_BODY` lines, docstring not counted. Validators and serializers, which are never called by name, are not
    among them."""
    named = Counter(re.findall(r"\b_\w+", text))
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and named[node.name] == 2
        and not any(re.search("validator|serializer", ast.unparse(decorator)) for decorator in node.decorator_list)
        and _body_lines(node) <= SMALL_BODY
    ]


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1 if body else 0


def test_fewer_and_fewer_small_helpers_are_used_once() -> None:
    assert sum(len(small_helpers(path.read_text("utf-8"))) for _, path in modules()) <= SMALL_HELPERS


def test_a_small_helper_is_one_that_is_named_once_beside_its_definition() -> None:
    once = "def _one():\n    return 1\n\ndef two():\n    return _one()"
    assert small_helpers(once) == ["_one"]
    assert not small_helpers(once + " + _one()")
    assert not small_helpers(once.replace("return 1", "a = 1\n    b = 2\n    c = 3\n    return a + b + c"))
