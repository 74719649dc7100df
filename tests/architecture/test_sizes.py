"""What a reader has to hold at once stays small: a module, a function, what a constructor takes."""

import ast
from functools import cache

from tests.architecture.imports import modules

MODULE_LINES = 400
FUNCTION_LINES = 60
ARGUMENTS = 6
"""Of a constructor, `self` not counted."""


@cache
def functions() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """By module, name and line."""
    return {
        f"{module}:{node.name}:{node.lineno}": node
        for module, path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_module_is_too_long() -> None:
    lines = {module: path.read_text("utf-8").count("\n") for module, path in modules()}
    assert not {module: count for module, count in lines.items() if count > MODULE_LINES}


def test_no_function_is_too_long() -> None:
    lines = {name: (node.end_lineno or node.lineno) - node.lineno + 1 for name, node in functions().items()}
    assert not {name: count for name, count in lines.items() if count > FUNCTION_LINES}


def test_no_constructor_takes_too_much() -> None:
    taken = {
        name: len(node.args.args) + len(node.args.kwonlyargs) - 1
        for name, node in functions().items()
        if node.name == "__init__"
    }
    assert not {name: count for name, count in taken.items() if count > ARGUMENTS}
