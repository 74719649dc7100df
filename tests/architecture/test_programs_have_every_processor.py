"""Whatever a drone starts may run on every processor, though its own threads keep to one."""

import ast
from collections.abc import Iterator
from pathlib import Path

DRONE = Path(__file__).parents[2] / "drone"
STARTS = {"Popen", "run", "check_output", "create_subprocess_exec", "create_subprocess_shell", "fork", "posix_spawn"}
OF = {"subprocess", "asyncio", "os"}
SHARED = DRONE.parent / "mcc" / "side_process.py"
"""A part of the shared floor that starts a program in a drone, too."""
PROGRAMS = {Path("sandbox/launcher.py"), Path("egress/joiner.py")}
"""Are processes of their own, which have every processor."""


def is_start(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(called := node.func, ast.Attribute)
        and called.attr in STARTS
        and isinstance(called.value, ast.Name)
        and called.value.id in OF
        and not (called.value.id == "asyncio" and called.attr == "run")
    )


def gives_all(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(
        ast.unparse(one.context_expr) == "PROCESSORS.all_available()" for one in node.items
    )


def starts(node: ast.AST, *, given: bool = False) -> Iterator[tuple[int, bool]]:
    """The line of each start of a program below this, and whether all processors are given there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and is_start(child):
            yield child.lineno, given
        yield from starts(child, given=given or gives_all(child))


def test_every_start_of_a_program_gives_it_every_processor() -> None:
    found = {
        f"{path.name}:{line}": given
        for path in (*sorted(DRONE.rglob("*.py")), SHARED)
        if path is SHARED or path.relative_to(DRONE) not in PROGRAMS
        for line, given in starts(ast.parse(path.read_text("utf-8")))
    }
    assert len(found) >= 9, "the starts that this test looks for are not found any more"
    assert [where for where, given in found.items() if not given] == []
