"""Nothing of a drone uses asyncio's own executor, which all orders would share."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shared_threads(source: str) -> list[int]:
    """Lines that call `asyncio.to_thread`, or `run_in_executor` with None."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            node.func.attr == "to_thread"
            or (node.func.attr == "run_in_executor" and ast.unparse(node.args[0]) == "None")
        )
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "drone").rglob("*.py")), ids=lambda path: path.stem)
def test_a_drone_does_nothing_in_threads_that_all_orders_share(path: Path) -> None:
    assert not shared_threads(path.read_text()), f"{path}: use drone.agent.threads"


def test_such_calls_are_seen() -> None:
    assert shared_threads("asyncio.to_thread(f)\nloop.run_in_executor(None, f)\nloop.run_in_executor(pool, f)") == [
        1,
        2,
    ]
