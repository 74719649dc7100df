"""Commands that do harm end in time, leave nothing behind, and cost the process that runs them little."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from tests.drone.sandbox.machine import found_shell
from tests.faults.commands import GRACE_SECONDS, HARMS, orphans
from tests.faults.members import ROOT

RSS_MB = 300.0
SHOWN_BYTES = 40_000


def test_a_command_that_does_harm_is_killed_in_time_with_all_it_started_and_its_output_is_bounded(
    tmp_path: Path,
) -> None:
    found_shell()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.commands", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=True,
    )
    *done, process = map(json.loads, ran.stdout.splitlines())
    assert [one["name"] for one in done] == list(HARMS)
    assert [f"{one['name']}: {one['problem']}" for one in done if one["problem"]] == []
    assert {one["name"]: one["orphans"] for one in done if one["orphans"]} == {}
    assert max(one["late"] for one in done) <= GRACE_SECONDS
    assert max(one["shown"] for one in done) <= SHOWN_BYTES and max(one["size"] for one in done) >= 30_000_000
    assert process["rss_mb"] <= RSS_MB


def test_a_process_that_is_left_is_found_by_its_mark() -> None:
    mark = uuid4().hex
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": mark})
    try:
        assert orphans(mark) == 1
    finally:
        left.kill()
        left.wait()
    assert orphans(mark) == 0
