"""Findings about this machine: data directory, disk, git, keys, prices."""

from pathlib import Path

from mcc.configuration.workspaces import KeptCheckout, KeptCheckouts
from mcc.contracts.drones import AS_ROOT, STANDS, SandboxState, Walls
from mcc.contracts.shape import to_json
from mcc.doctor.installation import Installation
from mcc.doctor.machine import (
    check_checkouts,
    check_configuration,
    check_data_dir,
    check_disk,
    check_git,
    check_keys,
    check_prices,
    database_file,
    sandbox_findings,
)
from mcc.local.data_dir import upgrade_database
from tests.mcc.doctor.installations import installed, register, settings_in, states_by_check

CONFIG = """
[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key_env = "MY_KEY"

[models.priced]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"

[models.priced.price]
input = 1
output = 2

[models.own]
provider = "offline"
"""


def test_keys_are_told_by_name_and_never_by_value(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(CONFIG)
    missing = list(check_keys(installed(tmp_path)))
    assert [finding.state for finding in missing] == ["warning"]
    assert "MY_KEY" in missing[0].detail
    there = list(check_keys(installed(tmp_path, MY_KEY="sk-very-secret", OPENAI_API_KEY="sk-other")))
    assert [finding.state for finding in there] == ["ok"]
    assert there[0].detail == "set here: OPENAI_API_KEY, MY_KEY"


def test_a_key_that_is_missing_here_is_no_warning_where_every_model_that_needs_it_can_be_asked_by_a_drone(
    tmp_path: Path,
) -> None:
    (tmp_path / "mcc.toml").write_text(CONFIG)
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    register(tmp_path, lease_seconds=60)
    assert [finding.state for finding in check_keys(installed(tmp_path))] == ["warning"]
    register(tmp_path, lease_seconds=60, problem=None, name="other")
    (found,) = check_keys(installed(tmp_path))
    assert found.state == "ok" and "MY_KEY is set where drones run" in found.detail


def test_what_a_drone_could_not_start_with_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text(CONFIG + "[drone]\nslot = 5\n")
    [finding] = check_configuration(installed(tmp_path, MCC_CONFIG=str(file)))
    assert finding.state == "broken" and finding.detail.startswith(f"{file}, line 20: there is no setting 'slot'")
    file.write_text(CONFIG)
    assert states_by_check(list(check_configuration(installed(tmp_path, MCC_CONFIG=str(file))))) == {"config": "ok"}


def test_git_is_looked_for_where_drones_find_it(tmp_path: Path) -> None:
    missing = list(check_git(installed(tmp_path), path=str(tmp_path)))
    assert states_by_check(missing) == {"git": "warning"} and "git tools are off" in missing[0].detail
    (tmp_path / "git").touch(0o755)
    assert states_by_check(list(check_git(installed(tmp_path), path=str(tmp_path)))) == {"git": "ok"}


def test_checkouts_that_stay_are_named_with_what_only_they_have(tmp_path: Path) -> None:
    assert [one.state for one in check_checkouts(installed(tmp_path))] == ["ok"]
    place = installed(tmp_path).settings.data_dir / "checkouts"
    place.mkdir(parents=True)
    one = KeptCheckout(place="/srv/x", address="https://git.example.org/team/shop", why="not committed: a", bytes_=5)
    (place / "kept.json").write_bytes(to_json(KeptCheckouts(kept=(one,))))
    [finding] = check_checkouts(installed(tmp_path))
    assert finding.state == "warning" and "/srv/x" in finding.detail and "not committed: a" in finding.detail
    (place / "kept.json").write_text("{torn")
    assert states_by_check(list(check_checkouts(installed(tmp_path)))) == {"checkouts": "warning"}


def test_models_without_a_price_are_named(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(CONFIG)
    found = list(check_prices(installed(tmp_path)))
    assert [finding.state for finding in found] == ["warning"]
    assert "fast" in found[0].detail
    assert "[models.fast.price]" in found[0].advice


def test_what_several_models_lack_is_one_line(tmp_path: Path) -> None:
    other = CONFIG.partition("[models.priced]")[0].replace("models.fast", "models.other")
    (tmp_path / "mcc.toml").write_text(CONFIG + other)
    (key,), (price,) = check_keys(installed(tmp_path)), check_prices(installed(tmp_path))
    assert "MY_KEY" in key.detail and "models fast, other" in key.detail
    assert "models fast, other" in price.detail


def test_a_token_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    tmp_path.chmod(0o755)
    (tmp_path / "token").chmod(0o644)
    assert states_by_check(list(check_data_dir(installed(tmp_path)))) == {"data dir": "warning"}
    (tmp_path / "token").chmod(0o600)
    assert states_by_check(list(check_data_dir(installed(tmp_path)))) == {"data dir": "ok"}


def test_a_data_directory_that_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert states_by_check(list(check_data_dir(installed(tmp_path / "file")))) == {"data dir": "broken"}


def test_the_disk_is_looked_at_where_the_directory_will_be(tmp_path: Path) -> None:
    assert "free under" in next(iter(check_disk(installed(tmp_path / "not" / "yet")))).detail


def test_the_file_of_a_database_is_found_in_its_address() -> None:
    assert database_file("sqlite:////srv/mcc.db") == Path("/srv/mcc.db")
    assert database_file("sqlite:///var/mcc.db?mode=rw") == Path("var/mcc.db")
    assert database_file("postgresql://me@db/mcc") is None


def test_a_data_dir_and_a_database_on_one_disk_are_one_line(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, MCC_DATABASE_URL=f"sqlite:///{tmp_path}/elsewhere/x.db")
    [finding] = check_disk(Installation(settings, {}, "", 0.5))
    assert finding.detail.endswith(str(tmp_path))


def test_a_drone_that_runs_as_root_is_a_warning_whether_or_not_its_walls_stand() -> None:
    standing = Walls(**dict.fromkeys(Walls.model_fields, STANDS))
    for kind, walls in (("bubblewrap", standing), ("container", standing), ("off", Walls.without("not installed"))):
        root, user = (
            list(sandbox_findings(SandboxState(kind=kind, walls=walls, as_root=one))) for one in (True, False)
        )
        assert [finding.detail for finding in root if finding not in user] == [AS_ROOT]
        assert {finding.state for finding in root} >= {"warning"} and user == root[1:]


def test_a_wall_that_is_missing_is_told_with_its_reason() -> None:
    walls = Walls(**{**dict.fromkeys(Walls.model_fields, STANDS), "proc_readonly": "missing: /proc/x can be written"})
    *_, told = sandbox_findings(SandboxState(kind="container", walls=walls))
    assert told.state == "warning" and told.detail == "proc_readonly is missing: /proc/x can be written"


def test_limits_that_need_delegated_cgroups_are_told_and_nobody_is_warned() -> None:
    why = "missing: the cgroups here have none of the controllers memory, pids, cpu"
    walls = Walls(**{**dict.fromkeys(Walls.model_fields, STANDS), "memory": why, "cpu": why})
    findings = list(sandbox_findings(SandboxState(kind="bubblewrap", walls=walls)))
    assert {finding.state for finding in findings} == {"ok"}
    assert "memory, cpu" in findings[-1].detail and "limit-programs.md" in findings[-1].detail
