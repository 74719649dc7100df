"""A log that cannot be written to ends no process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcc.local.child import LogFile
from tests.faults.disks import small_disk

CODE = """
import logging, sys, structlog
{import_set_up}
set_up()
for number in range(200):
    structlog.get_logger("x").warning("told", number=number, more="x" * 500)
    logging.getLogger("y").error("told %d", number)
"""
SET_UP = {
    "mcc": "from mcc.logs import set_up_logs as set_up",
    "drone": "from tests.drone.worker.test_logs import set_up",
}


def set_up() -> None:
    from drone.worker.app import set_up_logging as of_drone

    of_drone("info")


@pytest.mark.parametrize("where", [">/dev/full 2>/dev/full", ">&- 2>&-"], ids=["full", "closed"])
@pytest.mark.parametrize("who", ["mcc", "drone"])
def test_a_log_that_is_full_or_closed_ends_no_process(who: str, where: str) -> None:
    code = CODE.format(import_set_up=SET_UP[who])
    # The environment of the tests may make Python unbuffered, unlike that of most users.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    shell = ["sh", "-c", f'exec "$0" -c "$1" {where}', sys.executable, code]
    done = subprocess.run(shell, check=False, timeout=60, env=buffered)
    assert done.returncode == 0


def test_the_log_of_a_child_on_a_full_disk_keeps_its_supervisor(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        log = LogFile(disk.path / "child.log", largest=1_000)
        log.note("x" * 5_000)
        disk.fill_up()
        log.note("y" * 5_000)
        log.bound()
        assert log.path.stat().st_size == 0
        assert not log.older.exists()
