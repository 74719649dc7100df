"""A workspace is the directory that was there when its order began, whatever takes its name later."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from drone.models.scripted import call
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Roots
from mcc.api.submission import checked
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.settings import ServiceSettings
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene
from tests.hostile.exchange import Exchange
from tests.hostile.orders import Orders

ORDERS = 150
INSIDE, OUTSIDE = "this-is-inside", "this-is-outside"

FILES = (
    call("list_files"),
    call("find_files", pattern="*"),
    call("read_file", path="note.txt"),
    call("search_text", pattern="this-is"),
    call("search_text", pattern=INSIDE, path="note.txt"),
    call("rules_list"),
)
GIT = (
    call("git_log"),
    call("git_show", ref="HEAD"),
    call("git_diff"),
    call("git_ls_files"),
    call("git_status"),
    call("git_branches"),
)


def repository(root: Path, word: str) -> Scene:
    """`word` is in every place that a tool could show."""
    scene = Scene(root)
    scene.commit(f"A commit, {word}", {"note.txt": f"{word}\n", f"{word}.txt": "", "AGENTS.md": f"# {word}\n"})
    scene.git("branch", f"branch-{word}")
    scene.write({"note.txt": f"{word}, changed\n", f"untracked-{word}.txt": ""})
    return scene


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """`work` is a workspace, `link` leads to a repository outside of the roots."""
    made = tmp_path / "roots"
    repository(made / "work", INSIDE)
    repository(tmp_path / "outside", OUTSIDE)
    (made / "link").symlink_to(tmp_path / "outside")
    return made


@pytest.fixture
async def orders(tmp_path: Path, roots: Path) -> Orders:
    return Orders(tmp_path, roots)


@pytest.mark.parametrize("there", ["a link", "the directory itself"])
async def test_what_takes_the_name_of_a_workspace_in_mid_order_is_never_read(
    orders: Orders, roots: Path, tmp_path: Path, there: str
) -> None:
    found_sandbox()

    def swap() -> Iterator[object]:
        (roots / "work").rename(tmp_path / "moved")
        (roots / "link").rename(roots / "work") if there == "a link" else (tmp_path / "outside").rename(roots / "work")
        return iter((*FILES, *GIT))

    outcome, steps = await orders.run(roots / "work", [call("environment_detect")], swap)  # type: ignore[arg-type]
    assert outcome.status is OrderStatus.SUCCEEDED
    assert not [step.name for step in steps if OUTSIDE in step.content]
    assert [step.name for step in steps[1:] if INSIDE not in step.content] == []
    assert len(steps) == 1 + len(FILES) + len(GIT)


async def test_a_name_that_is_swapped_for_a_link_for_ever_shows_nothing_of_what_is_outside(
    orders: Orders, roots: Path
) -> None:
    shown: list[str] = []
    refused = 0
    with Exchange(roots / "work", roots / "link") as exchange:
        for number in count():
            if number >= ORDERS and refused and shown:
                break
            outcome, steps = await orders.run(roots / "work", FILES)
            refused += outcome.status is OrderStatus.FAILED
            shown += [step.content for step in steps]
    assert not [content for content in shown if OUTSIDE in content]
    assert any(INSIDE in content for content in shown)
    assert exchange.swaps >= 1_000


@pytest.mark.parametrize("by_descriptor", [True, False])
async def test_a_sandbox_has_the_directory_that_was_opened_or_none(
    roots: Path, tmp_path: Path, by_descriptor: bool
) -> None:
    found_sandbox()
    sandbox = Bubblewrap(str(shutil.which("bwrap")), by_descriptor=by_descriptor)
    workspace = Roots([roots]).opened(str(roots / "work"))
    said: list[str] = []
    with Exchange(roots / "work", tmp_path / "outside"):
        while len(said) < 40:
            ended = await sandbox.run(("cat", "note.txt"), workspace, Bounds(20.0))
            said.append(ended.stdout.head.decode())
            assert INSIDE in said[-1] or ended.status
    assert not [text for text in said if OUTSIDE in text]
    ended = await sandbox.run(("cat", "note.txt"), workspace, Bounds(20.0))
    assert INSIDE in ended.stdout.head.decode()


def test_an_order_on_a_name_that_is_swapped_is_still_accepted(roots: Path, tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path / "data", workspace_roots=(roots,))
    settings.data_dir.mkdir()
    with Exchange(roots / "work", roots / "link"):
        for _ in range(3_000):
            assert checked(NewOrder(prompt="x", workspace=str(roots / "work")), settings, (), now()).workspace


async def test_git_and_search_stay_where_they_are_while_the_name_is_swapped(orders: Orders, roots: Path) -> None:
    found_sandbox()
    with Exchange(roots / "work", roots / "link"):
        outcome = None
        while outcome is None or outcome.status is OrderStatus.FAILED:
            outcome, steps = await orders.run(
                roots / "work", [call("environment_detect")], [call("git_log"), call("git_show", ref="HEAD")] * 3, FILES
            )
    assert not [step.name for step in steps if OUTSIDE in step.content]
    assert [step.name for step in steps if INSIDE in step.content]
