"""The recipe for CI does what its page says: its commands run offline, and end with the files and codes named there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "run-in-ci.md").read_text("utf-8")
SCRIPT, YAML_TEXT = (
    re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0] for kind in ("sh", "yaml")
)
STEPS: list[dict[str, Any]] = yaml.safe_load(YAML_TEXT)["jobs"]["explain"]["steps"]
COMMANDS = {step["name"]: step["run"] for step in STEPS if "run" in step}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    (place / "ci").mkdir(parents=True)
    (place / "ci" / "agents.sh").write_text(SCRIPT)
    (place / "README.md").write_text("# Pond\n\nCounts ducks.\n")
    return place


def job(checkout: Path, command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """What a machine of a CI says that has nothing but a PATH and an empty home."""
    bare = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(checkout.parent)}
    summary = {"GITHUB_STEP_SUMMARY": str(checkout.parent / "summary")}
    return subprocess.run(
        ["sh", "-e", "-c", command],
        cwd=checkout,
        env=bare | summary | more,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_steps_of_the_job_leave_the_files_that_the_page_names(checkout: Path) -> None:
    assert (ran := job(checkout, COMMANDS["Run"])).returncode == 0, ran.stderr
    assert job(checkout, COMMANDS["Show"]).returncode == 0
    report = checkout / "agent-report"
    assert {file.name for file in report.iterdir()} == {*re.findall(r"^\| `agent-report/(\S+)` \|", PAGE, re.MULTILINE)}
    *entries, order = [json.loads(line) for line in (report / "journal.jsonl").read_text().splitlines()]
    assert [entry["seq"] for entry in entries] == [*range(1, len(entries) + 1)]
    assert order == json.loads((report / "order.json").read_text())
    assert {"status", "reason", "detail", "answer", "result", "usage"} <= {*order} and order["status"] == "succeeded"
    assert (report / "answer.md").read_text() == order["answer"] + "\n" == (checkout.parent / "summary").read_text()
    assert "Counts ducks" in order["answer"]


def test_an_order_that_fails_ends_the_job_with_1_and_keeps_its_files(checkout: Path) -> None:
    assert job(checkout, COMMANDS["Run"], AGENT_MODEL="nobody/none").returncode == 1
    assert job(checkout, COMMANDS["Show"]).returncode == 0
    order = json.loads((checkout / "agent-report" / "order.json").read_text())
    assert order["status"] == "failed" and order["reason"] and order["detail"]
    assert (checkout / "agent-report" / "answer.md").read_text() == "\n"


def test_wrong_agent_files_end_the_job_with_1(checkout: Path) -> None:
    (checkout / ".mcc" / "agents").mkdir(parents=True)
    file = checkout / ".mcc" / "agents" / "odd.md"
    file.write_text("---\nname: odd\ndescription: Odd.\n---\nBe odd.\n")
    assert (ran := job(checkout, COMMANDS["Check agent files"])).returncode == 0, ran.stdout
    file.write_text("---\nname: odd\ntools: [3]\n---\nBe odd.\n")
    assert job(checkout, COMMANDS["Check agent files"]).returncode == 1
