"""Command lines and environments of a family's children."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcc.local.family import Family
from mcc.local.programs import ChildCommands, Flower, Staff, free_port
from mcc.settings import BadSettings, ServiceSettings, load

LOGIN = "mcc:a-password-of-flower"


def household(tmp_path: Path, environ: Mapping[str, str] | None = None) -> ChildCommands:
    environ = {"MCC_DATA_DIR": str(tmp_path / "data"), "PATH": "/bin", **(environ or {})}
    return ChildCommands.of(settings(tmp_path, environ), environ, tmp_path / "run", "unix:///s")


def settings(tmp_path: Path, environ: Mapping[str, str]) -> ServiceSettings:
    return load(environ, directory=tmp_path)


def test_flower_gets_its_password_but_not_on_its_command_line(tmp_path: Path) -> None:
    flower = household(tmp_path).flower(5555, LOGIN)
    assert flower.environment["FLOWER_BASIC_AUTH"] == LOGIN
    assert not any("password" in argument for argument in flower.arguments)
    assert {"--address=127.0.0.1", "--max-tasks=5000", "--purge-offline-workers=300"} <= set(flower.arguments)


def test_what_the_shell_says_to_flower_does_not_count(tmp_path: Path) -> None:
    flower = household(tmp_path, {"FLOWER_UNAUTHENTICATED_API": "true", "FLOWER_AUTH": ".*"}).flower(5555, LOGIN)
    assert {name for name in flower.environment if name.startswith("FLOWER_")} == {"FLOWER_BASIC_AUTH"}


def test_redis_is_told_no_secret(tmp_path: Path) -> None:
    told = household(tmp_path, {"OPENAI_API_KEY": "sk", "HOME": "/h"}).redis(["redis-server"]).environment
    assert told == {"PATH": "/bin", "HOME": "/h"}


def test_drones_are_told_the_family_s_addresses_whatever_else_was_set(tmp_path: Path) -> None:
    drone = household(tmp_path, {"DRONE_REDIS_URL": "redis://else", "DRONE_NAME": "x", "OPENAI_API_KEY": "sk"})
    told = drone.drone("drone-1", 7)().environment
    assert told["MCC_REDIS_URL"] == "unix:///s"
    assert told["MCC_DATABASE_URL"] == f"sqlite:///{tmp_path}/data/mcc.db"
    assert told["OPENAI_API_KEY"] == "sk"
    assert not {"DRONE_REDIS_URL", "DRONE_NAME"} & set(told)


def test_a_drone_has_its_name_and_slots_and_may_be_told_how_to_drain(tmp_path: Path) -> None:
    command = household(tmp_path, {"DRONE_DRAIN_CANCEL_SECONDS": "0"}).drone("drone-1", 7)()
    assert list(command.arguments[-4:]) == ["--name", "drone-1", "--slots", "7"]
    assert command.environment["DRONE_DRAIN_CANCEL_SECONDS"] == "0"


def test_children_work_where_nothing_can_be_imported_by_accident(tmp_path: Path) -> None:
    here = household(tmp_path)
    commands = (here.flower(1, LOGIN), here.drone("drone-1", None)())
    assert all(command.directory == tmp_path / "run" for command in commands)
    assert all("-P" in command.arguments for command in commands)


def test_what_services_write_is_for_their_user_alone_and_only_drones_give_signs_of_life(tmp_path: Path) -> None:
    here = household(tmp_path)
    with socket.socket() as listening:
        services = (here.redis(["redis-server"]), here.api(listening), here.flower(1, LOGIN))
    assert [(one.umask, one.silent_seconds) for one in services] == [(0o077, None)] * 3
    drone = here.drone("drone-1", None)()
    assert (drone.umask, drone.silent_seconds) == (-1, 2 * here.settings.lease_seconds)


def test_a_chosen_token_reaches_the_api_and_drones_which_keep_it_out_of_what_is_told(tmp_path: Path) -> None:
    here = household(tmp_path, {"MCC_TOKEN": "t" * 32, "MCC_METRICS_TOKEN": "m" * 32})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        api = here.api(listening)
        assert api.environment["MCC_TOKEN"] == "t" * 32
        assert api.environment["MCC_METRICS_TOKEN"] == "m" * 32
        assert api.descriptors == (listening.fileno(),)
    assert here.drone("drone-1", None)().environment["MCC_TOKEN"] == "t" * 32
    assert "MCC_METRICS_TOKEN" not in here.drone("drone-1", None)().environment
    assert not {"MCC_TOKEN", "MCC_METRICS_TOKEN"} & here.flower(1, LOGIN).environment.keys()


def test_the_api_alone_of_all_services_gets_the_secrets_that_its_tables_name(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(
        '[triggers.a]\npath = "a"\nscheme = "github"\nsecret_env = ["A_HOOK"]\norder = {prompt = "x"}\n'
        '[oidc]\nissuer = "https://id.example"\nclient_id = "mcc"\nclient_secret_env = "OF_CLIENT"\n'
        'roles = {"*" = "viewer"}\n'
    )
    own = {"MCC_CONFIG": str(tmp_path / "mcc.toml"), "A_HOOK": "a" * 16, "OF_CLIENT": "c", "OPENAI_API_KEY": "sk"}
    here = household(tmp_path, own)
    with socket.socket() as listening:
        api = here.api(listening).environment
    assert (api["A_HOOK"], api["OF_CLIENT"]) == ("a" * 16, "c") and "OPENAI_API_KEY" not in api
    assert not {"A_HOOK", "OF_CLIENT"} & here.flower(1, LOGIN).environment.keys()
    drone = here.drone("drone-1", None)().environment
    assert not {"A_HOOK", "OF_CLIENT"} & drone.keys() and drone["OPENAI_API_KEY"] == "sk"


def test_the_token_of_a_forge_that_triggers_reply_to_reaches_the_api_and_drones(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(
        '[triggers.a]\npath = "a"\nscheme = "github"\nsecret_env = ["A_HOOK"]\norder = {prompt = "x"}\n'
        'reply = {forge = "hub", project = "a/b", number = 1}\n'
        '[forges.hub]\nkind = "github"\ntoken_env = "HUB"\n[forges.lab]\nkind = "gitlab"\ntoken_env = "LAB"\n'
    )
    own = {"MCC_CONFIG": str(tmp_path / "mcc.toml"), "A_HOOK": "a" * 16, "HUB": "h", "LAB": "l"}
    here = household(tmp_path, own)
    with socket.socket() as listening:
        api = here.api(listening).environment
    assert api["HUB"] == "h" and "LAB" not in api
    drone = here.drone("drone-1", None)().environment
    assert (drone["HUB"], drone["LAB"]) == ("h", "l")


def test_a_secret_that_a_table_of_drones_names_too_reaches_them(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(
        '[triggers.a]\npath = "a"\nscheme = "github"\nsecret_env = ["ONE", "BOTH"]\norder = {prompt = "x"}\n'
        '[forges.hub]\nkind = "github"\naddress = "https://hub.example"\ntoken_env = "BOTH"\n'
    )
    here = household(tmp_path, {"MCC_CONFIG": str(tmp_path / "mcc.toml"), "ONE": "a" * 16, "BOTH": "b" * 16})
    drone = here.drone("drone-1", None)().environment
    assert "ONE" not in drone and drone["BOTH"] == "b" * 16


@pytest.mark.parametrize(
    ("environ", "roots"),
    [
        ({}, str(Path.cwd())),
        ({"MCC_WORKSPACE_ROOTS": "/a:/b"}, "/a:/b"),
        ({"DRONE_WORKSPACE_ROOTS": "/c,/d", "MCC_WORKSPACE_ROOTS": "/a"}, "/c:/d"),
    ],
)
def test_orders_may_work_where_it_was_configured_else_here(tmp_path: Path, environ: dict[str, str], roots: str) -> None:
    told = household(tmp_path, environ).drone("drone-1", None)().environment
    assert told["MCC_WORKSPACE_ROOTS"] == roots


def test_roots_that_the_file_names_for_drones_are_left_to_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "mcc.toml"
    file.parent.mkdir()
    file.write_text('[drone]\nworkspace_roots = ["/srv"]\n')
    told = household(tmp_path, {"MCC_CONFIG": str(file)}).drone("drone-1", None)().environment
    assert "MCC_WORKSPACE_ROOTS" not in told
    assert told["MCC_CONFIG"] == str(file)


@pytest.mark.parametrize(
    ("said", "environ", "roots"),
    [
        ("", {}, f"{Path.cwd()}:/more"),
        ("", {"MCC_WORKSPACE_ROOTS": "/a:/more"}, "/a:/more"),
        ('[drone]\nworkspace_roots = ["/srv"]\n', {}, "/srv:/more"),
        ('[drone]\nworkspace_roots = "/srv,/b"\n', {}, "/srv:/b:/more"),
    ],
)
def test_a_directory_named_on_the_command_line_comes_on_top(
    tmp_path: Path, said: str, environ: dict[str, str], roots: str
) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text(said)
    environ = {"MCC_DATA_DIR": str(tmp_path / "data"), "MCC_CONFIG": str(file), **environ}
    here = ChildCommands.of(settings(tmp_path, environ), environ, tmp_path, "unix:///s", [Path("/more")])
    assert here.drone("drone-1", None)().environment["MCC_WORKSPACE_ROOTS"] == roots
    assert here.shared["MCC_WORKSPACE_ROOTS"] == roots


async def test_a_configuration_that_no_drone_can_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text('[models.fast]\nprovider = "openai"\nmodel = "m"\nbase-url = "x"\n')
    environ = {"MCC_DATA_DIR": str(tmp_path / "data"), "MCC_CONFIG": str(file)}
    here = Family(load(environ, directory=tmp_path, port=0), Staff(), environment=environ)
    with pytest.raises(BadSettings, match=rf'{file}, line 4: models.fast.base-url: .*did you mean "base_url"'):
        async with here:
            pass
    assert not list((tmp_path / "data" / "logs").iterdir())


async def test_a_trigger_without_its_secret_is_told_once_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text('[triggers.issues]\npath = "x"\nscheme = "github"\nsecret_env = ["HOOK"]\norder = {prompt = "x"}\n')
    environ = {"MCC_DATA_DIR": str(tmp_path / "data"), "MCC_CONFIG": str(file)}
    wanted = load(environ, directory=tmp_path, port=0)
    for secret in ({}, {"HOOK": "too short"}):
        with pytest.raises(BadSettings, match=rf"{file}, line 4: triggers.issues.secret_env: the variable HOOK"):
            async with Family(wanted, Staff(), environment={**environ, **secret}):
                pass
    assert not (tmp_path / "data").exists()


async def test_a_family_that_others_could_reach_wants_a_chosen_token(tmp_path: Path) -> None:
    open_wide = load({}, data_dir=tmp_path / "data", host="0.0.0.0")
    with pytest.raises(BadSettings, match="MCC_TOKEN"):
        async with Family(open_wide, Staff()):
            pass
    assert not (tmp_path / "data").exists()


def test_flower_is_on_its_port_or_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = free_port(port)
        assert found != port
    assert free_port(port) == port
    assert free_port(0) > 0


def test_it_is_told_when_flower_is_not_where_it_is_wanted(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = ServiceSettings(data_dir=tmp_path, flower_port=port)
        flower = Flower(ChildCommands.of(wanted, {}, tmp_path, "redis://x"), LOGIN)
        assert str(port) in flower.elsewhere and flower.url in flower.elsewhere
    at_home = Flower(ChildCommands.of(wanted, {}, tmp_path, "redis://x"), LOGIN)
    assert (at_home.elsewhere, at_home.url) == ("", f"http://127.0.0.1:{port}")


def test_every_child_learns_whether_titles_are_shown(tmp_path: Path) -> None:
    silent = ChildCommands.of(ServiceSettings(data_dir=tmp_path, flower_titles=False), {}, tmp_path, "redis://x")
    assert silent.drone("d", None)().environment["MCC_FLOWER_TITLES"] == "off"
    assert household(tmp_path).environment["MCC_FLOWER_TITLES"] == "on"
