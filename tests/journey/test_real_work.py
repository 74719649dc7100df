"""A failing test of three published packages is mended: run, read, edit, run again, in a worktree; committed once a
person has approved that; and once with the drone killed in the middle.

What people see of each is recorded in docs/transcripts, and compared with what happens here; WRITE_TRANSCRIPTS=1 writes
the files anew.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from mcc.client import MCC
from mcc.contracts.approvals import ApprovalItem
from mcc.contracts.entry import Entry
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.local.family import Family
from mcc.local.programs import Staff
from mcc.settings import load
from mcc.view.lines import Lines
from tests.forking.popen import family_of_forks
from tests.journey.conftest import FOREIGN
from tests.journey.script import call

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".venv" / "real-packages-1"
TRANSCRIPTS = ROOT / "docs" / "transcripts"
SANDBOX_PATH = "/usr/local/bin:/usr/bin:/bin"

CHANGING = [
    (re.compile(pattern), told)
    for pattern, told in {
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "…",
        r"drone-\d": "drone",
        r"until [0-9-]+ [0-9:]+": "until …",
        r"commit [0-9a-f]{10}": "commit …",
        r"[0-9,]+ files \([0-9,]+ bytes\)": "… files",
        r"[0-9,]+ tokens": "… tokens",
    }.items()
]
"""What differs from run to run."""

pytestmark = [
    pytest.mark.group("real work"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed (make system-deps)"),
]

LEAD = """---
name: lead
description: Has work done, and commits it.
tools: [environment_read, diff_read, git_write, delegation]
passes_on: [workspace_read, workspace_write, shell_write]
spawns: [mender]
result: text
---
You have a failing test mended, look at the change, and commit it.
"""
MENDER = """---
name: mender
description: Mends failing tests.
tools: [environment_read, workspace_read, workspace_write, shell_write]
isolation: worktree
result: text
---
You mend what makes a test fail.
"""


@dataclass(frozen=True)
class Work:
    """A package with a fault in it, and what mends that. `check` is run in the sandbox, and needs `program`."""

    package: str
    program: str
    source: str
    right: str
    wrong: str
    test: tuple[str, str]
    check: str
    subject: str
    more: tuple[tuple[str, str], ...] = ()

    @property
    def task(self) -> str:
        return f"Mend the failing test of {self.package}"

    def lacks(self) -> str | None:
        if (reason := PACKAGES / f"{self.package}.missing").exists():
            return reason.read_text().strip()
        if not (PACKAGES / self.package).is_dir():
            return "the published packages are not there: scripts/real-packages"
        return None if shutil.which(self.program, path=SANDBOX_PATH) else f"{self.program} is not in {SANDBOX_PATH}"

    def rules(self) -> list[dict[str, Any]]:
        """What the scripted model answers: to the mender's task, and to the order."""
        run = {"tool_calls": [call("run_shell", command=self.check)]}
        return [
            {
                "match": f"{self.package}: mend it",
                "replies": [
                    {"text": "I look at how it fails.", **run},
                    {"tool_calls": [call("read_file", path=self.source)]},
                    {"tool_calls": [call("edit_file", path=self.source, old=self.wrong, new=self.right)]},
                    {"text": "And again.", **run},
                    {"text": f"{self.subject}. The test passes now."},
                ],
            },
            {
                "match": self.task,
                "replies": [
                    {"tool_calls": [call("subagent", agent_type="mender", prompt=f"{self.package}: mend it")]},
                    {"tool_calls": [call("git_diff")]},
                    {"tool_calls": [call("git_add", paths=[self.source])]},
                    {"tool_calls": [call("git_commit", message=self.subject)]},
                    {"text": f"{self.subject}, and committed."},
                ],
            },
        ]


ROMAN = Work(
    "roman",
    "python3",
    "roman/__init__.py",
    "('IX', 9),",
    "('IX', 8),",
    (
        "test_roman.py",
        "import unittest\n\nimport roman\n\n\nclass Nines(unittest.TestCase):\n    def test_nine(self):\n"
        '        self.assertEqual(roman.toRoman(9), "IX")\n'
        "        self.assertEqual(roman.fromRoman('XXIX'), 29)\n",
    ),
    "python3 -B -m unittest -q test_roman 2>&1 | grep -v '^Ran'; exit ${PIPESTATUS[0]}",
    "Nine is IX again",
)
WORDWRAP = Work(
    "wordwrap",
    "node",
    "index.js",
    "if (lines[i].length + chunk.length > stop) {",
    "if (lines[i].length > stop) {",
    (
        "test/width.js",
        "const assert = require('assert');\nconst wrap = require('../');\n\n"
        "const lines = wrap(20)('the quick brown fox jumps over the lazy dog').split('\\n');\n"
        "assert.ok(lines.every(line => line.length <= 20), 'a line is wider than 20');\n"
        "console.log('all lines fit');\n",
    ),
    "node test/width.js 2>&1 | grep -E 'AssertionError|fit'; exit ${PIPESTATUS[0]}",
    "Lines are broken before they grow too wide",
)
CMARK = Work(
    "cmark",
    "cc",
    "vendor/cmark/src/cmark_ctype.c",
    "  return (result == 3 || result == 4);",
    "  return (result == 4);",
    (
        "vendor/cmark/src/check_ctype.c",
        '#include <stdio.h>\n#include "cmark_ctype.h"\n\nint main(void) {\n'
        "  for (char c = '0'; c <= '9'; c++)\n    if (!cmark_isalnum(c)) {\n"
        '      printf("%c is taken for neither letter nor digit\\n", c);\n      return 1;\n    }\n'
        '  puts("digits count");\n  return 0;\n}\n',
    ),
    "cd vendor/cmark/src && cc -I. -o /tmp/check check_ctype.c cmark_ctype.c && /tmp/check",
    "Digits are alphanumeric again",
    (("vendor/cmark/src/cmark_export.h", "#define CMARK_EXPORT\n"),),
)
ALL = (ROMAN, WORDWRAP, CMARK)


def git(directory: Path, *words: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=someone", "-c", "user.email=someone@localhost", "-c", "init.defaultBranch=main")
    command = ("git", *who, *words)
    return subprocess.run(command, cwd=directory, env=own, check=True, capture_output=True, text=True).stdout


def checkout(work: Work, directory: Path) -> Path:
    """The package as a repository, with the fault and the test that finds it committed."""
    shutil.copytree(PACKAGES / work.package, directory)
    shutil.rmtree(directory / ".git", ignore_errors=True)
    for nested in directory.rglob(".git"):
        nested.unlink() if nested.is_file() else shutil.rmtree(nested)
    source = directory / work.source
    text = source.read_text()
    assert text.count(work.right) == 1, f"{work.source} is not as it was when this was written"
    source.write_text(text.replace(work.right, work.wrong))
    for name, content in (work.test, *work.more):
        (directory / name).write_text(content)
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "as published, with a fault")
    return directory


@dataclass(frozen=True)
class House:
    family: Family
    mcc: MCC
    root: Path

    def placed(self, work: Work, name: str) -> tuple[WorkOrder, Path]:
        if reason := work.lacks():
            pytest.skip(reason)
        repository = checkout(work, self.root / name)
        order = self.mcc.orders.submit(work.task, agent="lead", workspace=repository, on_ask="wait")
        return order, repository

    def entries(self, order: WorkOrder) -> Iterator[Entry]:
        """Those of the order to its end; whatever it asks leave for is approved."""
        for entry in self.mcc.orders.watch(order.id):
            yield entry
            if entry.kind == "order.waiting":
                [item] = [one for one in self.mcc.inbox.list().items if one.order_id == order.id]
                assert isinstance(item, ApprovalItem) and item.tool == "git_commit" and item.preview is not None
                self.mcc.inbox.approve(item.id, note="looks right")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    data_dir, root, config = (tmp_path_factory.mktemp(name) for name in ("data", "repos", "config"))
    script = data_dir / "script.json"
    script.write_text(json.dumps({"rules": [rule for work in ALL for rule in work.rules()]}))
    (data_dir / "mcc.toml").write_text(
        f'[models.scripted]\nprovider = "scripted"\nmodel = "{script}"\n[defaults]\nmodel = "scripted"\n'
        '[permission]\ngit_commit = "ask"\n'
    )
    agents = config / "mcc" / "agents"
    agents.mkdir(parents=True)
    (agents / "lead.md").write_text(LEAD)
    (agents / "mender.md").write_text(MENDER)
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    environment = {**own, "XDG_CONFIG_HOME": str(config), "DRONE_PARK_AFTER_SECONDS": "0.2"}
    settings = load(
        environ={"XDG_CONFIG_HOME": str(config)},
        data_dir=data_dir,
        host="127.0.0.1",
        port=0,
        workspace_roots=(root,),
        lease_seconds=2,
        renew_seconds=0.3,
    )
    family = Family(settings, Staff(drones=2, slots=4, flower=False), purpose="run", environment=environment)
    with family_of_forks(family), MCC(family.url, token=family.token) as mcc:
        yield House(family, mcc, root)


def mended(house: House, work: Work, order: WorkOrder, repository: Path) -> None:
    """The order succeeded, the test passes, and one commit holds the change and nothing else."""
    order = house.mcc.orders.get(order.id)
    assert order.status is OrderStatus.SUCCEEDED, order.detail
    assert subprocess.run(["bash", "-c", work.check], cwd=repository, check=False).returncode == 0
    assert git(repository, "log", "--format=%s").splitlines() == [work.subject, "as published, with a fault"]
    assert git(repository, "diff", "--name-only", "HEAD~1").split() == [work.source]
    assert git(repository, "status", "--porcelain", "--untracked-files=no") == ""
    assert order.changes is not None
    assert [commit.subject for commit in order.changes.commits] == [work.subject]
    assert [tree.state for tree in order.changes.worktrees] == ["merged"]


def statuses(entries: list[Entry]) -> list[int | None]:
    """The exit statuses of the commands that were run."""
    ended = [entry.data for entry in entries if isinstance(entry.data, ToolFinished)]
    return [json.loads(unfenced(one.content))["exit_code"] for one in ended if one.name == "run_shell"]


def transcript(work: Work, entries: list[Entry]) -> str:
    """What a terminal shows of the order, without its times and what else differs from day to day."""
    lines = Lines()
    told = [line.partition(" ")[2] for entry in entries if (line := lines.line_of(entry)) is not None]
    told = [reduce(lambda line, one: one[0].sub(one[1], line), CHANGING, line) for line in told]
    return "\n".join([f"$ mcc run --agent lead --workspace {work.package} '{work.task}'", *told]) + "\n"


@pytest.mark.parametrize("work", ALL, ids=lambda work: work.package)
def test_a_failing_test_is_mended_in_a_worktree_and_committed_with_leave(house: House, work: Work) -> None:
    order, repository = house.placed(work, work.package)
    entries = list(house.entries(order))
    mended(house, work, order, repository)
    assert [status == 0 for status in statuses(entries)] == [False, True]
    recorded, told = TRANSCRIPTS / f"{work.package}.txt", transcript(work, entries)
    if os.environ.get("WRITE_TRANSCRIPTS"):
        recorded.write_text(told)
    assert told == recorded.read_text()


def test_a_drone_that_is_killed_in_the_middle_costs_nothing_that_was_done(house: House) -> None:
    order, repository = house.placed(ROMAN, "roman-killed")
    entries = []
    for entry in house.entries(order):
        entries.append(entry)
        if isinstance(entry.data, ToolFinished) and entry.data.name == "edit_file":
            holder = house.mcc.orders.get(order.id).drone
            victims = [drone for drone in house.mcc.drones.list() if drone.name == holder]
            for victim in victims:
                os.kill(victim.pid, signal.SIGKILL)
    mended(house, ROMAN, order, repository)
    assert house.mcc.orders.get(order.id).attempt >= 2
    edits = [one for one in entries if isinstance(one.data, ToolFinished) and one.data.name == "edit_file"]
    assert [one.data.is_error for one in edits if isinstance(one.data, ToolFinished)] == [False]
