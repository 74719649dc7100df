"""A test's name is the sentence that it shows: whoever reads that it failed knows what no longer holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEAST_WORDS = 3


def names() -> Iterator[tuple[str, str]]:
    """Each test's file and name, without `test_`."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield str(path.relative_to(TESTS)), node.name.removeprefix("test_")


def test_the_name_of_a_test_is_a_sentence_of_several_words() -> None:
    found = list(names())
    assert len(found) > 1_000
    assert [(path, name) for path, name in found if len(name.split("_")) < LEAST_WORDS] == []
