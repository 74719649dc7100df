"""The attacks on the sandbox once more, by a user without rights: some walls the kernel decides by the user id."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.drone.sandbox.machine import found_sandbox

NOBODY = 65534
HERE = Path(__file__).parents[2]


def is_open_to_all(path: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (path, *path.parents))


def attacks() -> list[str]:
    """The files of tests; what runs the interpreter, in the sandbox or beside it, only where every user can run it."""
    rows = ["tests/hostile/test_rows_sandbox.py"]
    open_here = is_open_to_all(HERE) and is_open_to_all(Path(sys.executable).absolute())
    if not open_here:
        rows.append(f"--deselect={rows[0]}::test_row_39_nothing_of_our_environment_is_there")
    if open_here and is_open_to_all(Path(sys.executable).resolve()):
        rows.append("tests/drone/sandbox/test_walls.py")
    return rows


def test_every_wall_that_stands_for_root_stands_for_a_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; as a user the attacks ran already")
    found_sandbox()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="mcc-nobody-") as home:
        os.chown(home, NOBODY, NOBODY)
        how = ("-q", "-p", "no:cacheprovider", "--basetemp", f"{home}/made")
        ran = subprocess.run(
            (sys.executable, "-m", "tests.hostile.as_a_user", str(NOBODY), *how, *attacks()),
            cwd=HERE,
            env={**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert ran.returncode == 0, ran.stdout[-5_000:]
    assert passed is not None and int(passed[1]) > 60, ran.stdout[-5_000:]
