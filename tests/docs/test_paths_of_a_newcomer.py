"""The page "Where would I change …?": ten questions, and in each path every step names the next one in its own code."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where-to-change.md").read_text("utf-8")
STEP = re.compile(r"`((?:mcc|drone)/[\w/]+\.py):([\w.]+)`")
PATHS = {
    section.partition("\n")[0]: STEP.findall(next(line for line in section.splitlines() if " → " in line))
    for section in PAGE.split("\n## ")[1:]
}


def code_of(path: str, name: str) -> ast.AST:
    """The definition of `name` (`function`, `Class`, `Class.method` or a constant) in a module."""
    node: ast.AST = ast.parse((ROOT / path).read_text("utf-8"))
    for part in name.split("."):
        node = next(one for one in ast.iter_child_nodes(node) if part in _names(one))
    return node


def _names(node: ast.AST) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {one.id for one in targets if isinstance(one, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def mentioned(node: ast.AST) -> set[str]:
    """The names that code uses, without those in its strings and comments, and the one that it defines."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)} | _imported(node)


def _imported(node: ast.AST) -> set[str]:
    return {name.name for one in ast.walk(node) if isinstance(one, ast.ImportFrom) for name in one.names}


def test_there_are_ten_questions_each_with_one_path() -> None:
    assert len(PATHS) == 10 and all(question.endswith("?") and len(path) > 2 for question, path in PATHS.items())


@pytest.mark.parametrize("question", PATHS)
def test_each_step_of_a_path_names_the_next(question: str) -> None:
    for (path, name), (to, target) in pairwise(PATHS[question]):
        assert target.rpartition(".")[2] in mentioned(code_of(path, name)), f"{path}:{name} does not name {target}"
        code_of(to, target)
