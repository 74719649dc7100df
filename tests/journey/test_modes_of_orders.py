"""What each mode lets an order do, asks a person for, and denies: in a real family, on a real git repository."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import rmtree

import pytest

from mcc.contracts.approvals import AnyItem, ApprovalItem
from mcc.contracts.journal import ToolFinished
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from tests.journey.conftest import ON_SQLITE, House
from tests.journey.script import DOCK, HARBOUR

pytestmark = [pytest.mark.group("turns"), ON_SQLITE]

CLERK = """---
name: clerk
description: Does what it is told.
tools: [read_file, write_file, shell_write, git_add, git_commit]
result: text
---
Do it.
"""


@pytest.fixture
def yard(house: House) -> Iterator[Path]:
    """A git repository with one commit, and an agent of its own that may do what the modes are about."""
    root = house.workspace / "yard"
    (root / ".mcc" / "agents").mkdir(parents=True)
    (root / ".mcc" / "agents" / "clerk.md").write_text(CLERK)
    (root / "dock.txt").write_text("wood\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "The dock")
    yield root
    rmtree(root)


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def place(house: House, yard: Path, mode: str, on_ask: str) -> WorkOrder:
    git(yard, "reset", "-q", "--hard", git(yard, "rev-list", "--max-parents=0", "HEAD").strip())
    git(yard, "clean", "-qfd")
    return house.mcc.orders.submit(DOCK, mode=mode, on_ask=on_ask, agent="clerk", model=HARBOUR, workspace=str(yard))


def done(house: House, order: WorkOrder) -> Mapping[str, tuple[str, str]]:
    """How each call ended and what its model was told, once the order has succeeded."""
    ends = [entry.data for entry in house.mcc.orders.watch(order.id) if isinstance(entry.data, ToolFinished)]
    assert house.mcc.orders.get(order.id).status is OrderStatus.SUCCEEDED
    return {end.name: (str(end.outcome), end.content) for end in ends}


def asked(house: House, order: WorkOrder) -> AnyItem:
    next(entry for entry in house.mcc.orders.watch(order.id) if entry.kind == "approval.requested")
    [item] = house.mcc.inbox.list(order_id=order.id).items
    return item


ALL = {"read_file", "write_file", "run_shell", "git_add", "git_commit"}
DENIED = {
    "plan": ALL - {"read_file"},
    "build": {"git_commit"},
    "test": {"write_file", "git_add", "git_commit"},
    "ship": set(),
    "develop": set(),
}
"""What an order does not get to do whose calls nobody can be asked for."""


@pytest.mark.parametrize("mode", DENIED)
def test_what_a_mode_denies_is_not_done_and_the_model_is_told_why(house: House, yard: Path, mode: str) -> None:
    ends = done(house, place(house, yard, mode, "deny"))
    assert {name for name, (outcome, _) in ends.items() if outcome == "denied"} == DENIED[mode]
    assert ends.keys() == ALL and all("the mode of this order says so" in ends[name][1] for name in DENIED[mode])
    if mode == "test":
        assert '"changed":["made.txt"]' in ends["run_shell"][1], "what a command changed is told"
    assert (yard / "plank.txt").exists() is ("write_file" not in DENIED[mode])
    assert git(yard, "log", "--format=%s").count("Mend") == ("git_commit" not in DENIED[mode])


def test_a_build_asks_for_the_commit_alone_and_makes_it_once_somebody_approves(house: House, yard: Path) -> None:
    order = place(house, yard, "build", "wait")
    item = asked(house, order)
    assert isinstance(item, ApprovalItem) and item.tool == "git_commit" and "+oak" in str(item.preview)
    assert item.why is not None and (item.why.layer, item.why.key) == ("mode", "git_commit")
    assert house.mcc.orders.get(order.id).on_ask == "wait"
    house.mcc.inbox.approve(item.id)
    assert {outcome for outcome, _ in done(house, order).values()} == {"ok"}
    assert git(yard, "log", "--format=%s").splitlines() == ["Mend the dock", "The dock"]


@pytest.mark.parametrize("mode", ["plan", "test"])
def test_what_a_mode_denies_nobody_is_asked_for(house: House, yard: Path, mode: str) -> None:
    order = place(house, yard, mode, "wait")
    ends = done(house, order)
    assert {name for name, (outcome, _) in ends.items() if outcome == "denied"} == DENIED[mode]
    assert house.mcc.inbox.list(status=None, order_id=order.id).items == ()
