"""What a reader has to hold at once stays small: a module, a function, what a constructor takes."""

import ast
from functools import cache
from typing import NamedTuple

from tests.architecture.imports import modules

MODULE_LINES = 400
FUNCTION_LINES = 60
ARGUMENTS = 6
"""Of a constructor, `self` not counted."""


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
