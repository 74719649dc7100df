"""An order on MCC's own data, configuration or secrets is refused when it is placed, as far as MCC can see it."""

from pathlib import Path

import pytest

from mcc.api.problems import Unacceptable
from mcc.api.submission import checked
from mcc.configuration.places import own_directories, own_files
from mcc.configuration.running import AddedRoots
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.settings import ServiceSettings


@pytest.mark.parametrize("workspace", ["data", "data/run", "data/not/there", "link", "link/run", "work/../data"])
async def test_a_workspace_in_the_data_directory_is_refused_with_what_to_do(tmp_path: Path, workspace: str) -> None:
    (tmp_path / "data" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    settings = ServiceSettings(data_dir=tmp_path / "data", workspace_roots=(tmp_path,))
    with pytest.raises(Unacceptable) as refused:
        checked(NewOrder(prompt="x", workspace=f"{tmp_path}/{workspace}"), settings, (), now())
    assert "inside MCC's own data" in str(refused.value) and "MCC_DATA_DIR" in str(refused.value)


@pytest.mark.parametrize("workspace", [".", "data-2", "work"])
async def test_one_that_contains_it_or_lies_beside_it_is_accepted(tmp_path: Path, workspace: str) -> None:
    for name in ("data", "data-2", "work"):
        (tmp_path / name).mkdir()
    settings = ServiceSettings(data_dir=tmp_path / "data", workspace_roots=(tmp_path,))
    placed = checked(NewOrder(prompt="x", workspace=f"{tmp_path}/{workspace}"), settings, (), now())
    assert placed.workspace == str(tmp_path / workspace)


def test_own_directories_are_those_in_use_and_those_of_the_user(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "/etc/xdg"}
    found = own_directories(environ, Path("/srv/data"))
    share = tmp_path / ".local/share"
    assert set(found) >= {Path("/srv/data"), share / "mcc", share / "mcc-demo", Path("/etc/xdg/mcc")}


@pytest.mark.parametrize(
    ("address", "first", "many"),
    [
        ("sqlite:////srv/a%20b/mcc.db?mode=rw", Path("/srv/a b/mcc.db"), 4),
        ("sqlite:///mcc.db", Path("mcc.db"), 4),
        ("unix:///run/redis.sock", Path("/run/redis.sock"), 1),
        ("redis+socket:///run/redis.sock?db=1", Path("/run/redis.sock"), 1),
        ("postgresql://mcc@db/mcc", None, 0),
        ("redis://127.0.0.1:6379/0", None, 0),
    ],
)
def test_own_files_are_those_behind_addresses_of_this_machine(address: str, first: Path | None, many: int) -> None:
    found = own_files(address)
    assert len(found) == many and (found[0] if found else None) == first


def test_a_directory_that_was_added_to_the_family_is_a_root_like_others(tmp_path: Path) -> None:
    (tmp_path / "data" / "run").mkdir(parents=True, mode=0o700)
    settings = ServiceSettings(data_dir=tmp_path / "data")
    new = NewOrder(prompt="x", workspace=str(tmp_path / "work"))
    with pytest.raises(Unacceptable, match="not under an allowed directory"):
        checked(new, settings, (), now())
    AddedRoots(tmp_path / "data").add(tmp_path / "work")
    assert checked(new, settings, (), now()).workspace == str(tmp_path / "work")
