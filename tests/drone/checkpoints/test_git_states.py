"""A revert brings back repositories as they were, and makes none of what several orders each did a part of."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

import pytest

from drone.checkpoints.recording import OrderCheckpoints
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.checkpoints.test_reverts import Site
from tests.drone.tools.git_scene import Scene

STOP = Event()
HEAD = "ref: refs/heads/main\n"
HOSTILE = "[core]\n\tfsmonitor = x\n"
HARMLESS = "[core]\n\tbare = true\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def by(site: Site, order_id: str, change: Callable[[], object], *paths: str) -> None:
    """A call of an order: a command, or a tool that changes these paths alone."""
    order: OrderCheckpoints = site.order(order_id)
    call_id = f"{order_id}-{len(order.known())}"
    order.begin(call_id, [path.encode() for path in paths] or None, STOP)
    change()
    order.close(call_id, STOP)


def head_in_one_order(site: Site) -> None:
    """One order takes HEAD away, another one makes the rest."""
    write(site.root, {"d/HEAD": HEAD, "d/config": HOSTILE, "d/objects/x": "x"})
    by(site, "order-1", (site.root / "d/HEAD").unlink)
    by(site, "order-2", lambda: write(site.root, {"d/refs/x": "x"}))


def a_part_by_a_tool(site: Site) -> None:
    write(site.root, {"d/HEAD": HEAD, "d/config": HOSTILE, "d/objects/x": "x"})
    by(site, "order-1", (site.root / "d/HEAD").unlink, "d/HEAD")
    by(site, "order-2", lambda: write(site.root, {"d/refs/x": "x"}))


def configuration_in_one_order(site: Site) -> None:
    """A configuration that was none is replaced, and then the directory becomes a repository."""
    write(site.root, {"d/config": HOSTILE})
    by(site, "order-1", lambda: write(site.root, {"d/config": HARMLESS}), "d/config")
    by(site, "order-2", lambda: write(site.root, {"d/HEAD": HEAD, "d/objects/x": "x", "d/refs/x": "x"}))
    by(site, "order-1", lambda: write(site.root, {"other": "x"}))


def configuration_meanwhile(site: Site) -> None:
    """A repository is taken apart, its configuration replaced while it is none."""
    write(site.root, {"d/HEAD": HEAD, "d/config": HARMLESS, "d/objects/x": "x", "d/refs/x": "x"})
    by(site, "order-1", (site.root / "d/HEAD").unlink)
    by(site, "order-2", lambda: write(site.root, {"d/config": HOSTILE}), "d/config")


def hooks_meanwhile(site: Site) -> None:
    write(site.root, {"d/HEAD": HEAD, "d/config": HARMLESS, "d/objects/x": "x", "d/refs/x": "x"})
    by(site, "order-1", (site.root / "d/HEAD").unlink)
    by(site, "order-2", lambda: write(site.root, {"d/hooks/post-update": "x"}))


def pointer_meanwhile(site: Site) -> None:
    write(site.root, {"d/HEAD": HEAD})
    by(site, "order-1", (site.root / "d/HEAD").unlink)
    by(site, "order-2", lambda: write(site.root, {"d/commondir": "../c"}))


PARTS = [
    head_in_one_order,
    a_part_by_a_tool,
    configuration_in_one_order,
    configuration_meanwhile,
    hooks_meanwhile,
    pointer_meanwhile,
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("overwrite", [False, True])
async def test_a_revert_completes_no_git_directory(site: Site, part: Callable[[Site], None], overwrite: bool) -> None:
    part(site)
    before = site.picture()
    outcome = await site.revert("order-1", overwrite=overwrite)
    held = {path: entry for path, entry in site.picture().items() if path != "other"}
    assert held == {path: entry for path, entry in before.items() if path != "other"}
    if overwrite:
        assert outcome.status is OrderStatus.SUCCEEDED and "was left as it is" in (outcome.answer or "")
    else:
        assert outcome.reason is FailureReason.INVALID and "take a directory for a repository" in (outcome.detail or "")


def a_removed_repository(site: Site) -> None:
    by(site, "order-1", lambda: shutil.rmtree(site.root / ".git"))


def a_tool_before_the_command(site: Site) -> None:
    by(site, "order-1", lambda: write(site.root, {"a": "changed"}), "a")
    by(site, "order-1", lambda: shutil.rmtree(site.root / ".git"))


def a_new_one_in_its_place(site: Site) -> None:
    def anew() -> None:
        shutil.rmtree(site.root / ".git")
        Scene(site.root)

    by(site, "order-1", anew)


def a_person_configures_meanwhile(site: Site) -> None:
    by(site, "order-1", lambda: write(site.root, {"b": "b"}))
    Scene.existing(site.root).git("config", "core.pager", "less")
    by(site, "order-1", lambda: shutil.rmtree(site.root / ".git"))


@pytest.mark.parametrize(
    "taken", [a_removed_repository, a_tool_before_the_command, a_new_one_in_its_place, a_person_configures_meanwhile]
)
async def test_a_repository_that_was_one_comes_back(site: Site, taken: Callable[[Site], None]) -> None:
    scene = Scene(site.root)
    commit = scene.commit("One", {"a": "a"})
    taken(site)
    outcome = await site.revert("order-1")
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert scene.git("rev-parse", "HEAD") == commit and scene.git("status", "--short") == ""


async def test_a_repository_that_the_order_made_goes_and_comes_back(site: Site) -> None:
    by(site, "order-1", lambda: Scene(site.root / "new").commit("One", {"a": "a"}))
    made = site.picture()
    assert (await site.revert("order-1", own="revert-1")).status is OrderStatus.SUCCEEDED
    assert site.picture() == {}
    assert (await site.revert("revert-1")).status is OrderStatus.SUCCEEDED
    assert site.picture() == made
