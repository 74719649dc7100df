"""Nothing of a drone uses asyncio's own executor, which all orders would share."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def shared_threads(source: str) -> list[int]:
    """Lines that call `asyncio.to_thread`, or `run_in_executor` with None."""
    if "to_thread" not in source and "run_in_executor" not in source:
        return []
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


def test_a_drone_does_nothing_in_threads_that_all_orders_share() -> None:
    paths = sorted((ROOT / "drone").rglob("*.py"))
    found = {str(path): lines for path in paths if (lines := shared_threads(path.read_text()))}
    assert paths and not found, f"use drone.threads: {found}"


def test_such_calls_are_seen() -> None:
    assert shared_threads("asyncio.to_thread(f)\nloop.run_in_executor(None, f)\nloop.run_in_executor(pool, f)") == [
        1,
        2,
    ]
