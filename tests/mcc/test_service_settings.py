"""Settings of the service: their sources, and errors for wrong values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcc.settings import BadSettings, ServiceSettings, load, trigger_secrets

LONG = "x" * 32


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A directory without mcc.toml."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_arguments_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text('[mcc]\nhost = "::1"\nport = 1\nqueues = ["a", "b"]\n[models.fast]\nx = 1\n')
    environ = {"MCC_PORT": "2", "MCC_HOST": "localhost", "MCC_DATA_DIR": str(tmp_path)}
    found = load(environ, directory=tmp_path, port=3)
    assert (found.port, found.host, found.queues, found.lease_seconds) == (3, "localhost", ("a", "b"), 12)


def test_the_defaults_are_those_of_a_single_machine(empty: Path) -> None:
    found = load({"XDG_DATA_HOME": str(empty)}, directory=empty)
    assert found.data_dir == empty / "mcc"
    assert found.database_url == f"sqlite:///{empty}/mcc/mcc.db" and found.has_own_database
    assert (found.host, found.port, found.queues, found.redis_url) == ("127.0.0.1", 8420, ("default",), None)
    assert (found.token, found.workspace_roots, found.allowed_hosts) == (None, (), ())


def test_the_file_is_the_named_one_else_the_user_s_own_else_in_the_data_dir(tmp_path: Path, empty: Path) -> None:
    places = [tmp_path / "named.toml", tmp_path / "config" / "mcc" / "mcc.toml", tmp_path / "data" / "mcc.toml"]
    for number, place in enumerate(places, start=1):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"[mcc]\nport = {number}\n")
    data = {"MCC_DATA_DIR": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(empty)}
    own = data | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert load(own | {"MCC_CONFIG": str(places[0])}, directory=empty).port == 1
    assert load(own, directory=empty).port == 2
    assert load(data, directory=empty).port == 3


def test_modules_of_functions_come_from_a_table_of_their_own_and_from_nowhere_else(tmp_path: Path, empty: Path) -> None:
    own = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "mcc").mkdir()
    file = tmp_path / "mcc" / "mcc.toml"
    file.write_text('[documents]\nfunctions = ["my_rules"]\n')
    assert load(own, directory=empty).documents.functions == ("my_rules",)
    assert load(own | {"MCC_DOCUMENTS": "evil"}, directory=empty).documents.functions == ("my_rules",)
    assert load(own, directory=empty).shown()["documents"] == "my_rules"
    for wrong in ('[mcc]\ndocuments = {functions = ["my_rules"]}\n', "[documents]\nfunktions = []\n"):
        file.write_text(wrong)
        with pytest.raises(BadSettings, match=r"documents|funktions"):
            load(own, directory=empty)


def test_git_addresses_are_a_table_of_the_file(tmp_path: Path, empty: Path) -> None:
    (tmp_path / "mcc").mkdir()
    written = '[[workspaces.git]]\naddress = "https://git.example.org/team/*"\ntoken_env = "TEAM_GIT_TOKEN"\n'
    (tmp_path / "mcc" / "mcc.toml").write_text(written)
    (remote,) = load({"XDG_CONFIG_HOME": str(tmp_path)}, directory=empty).workspaces.git
    assert (remote.address, remote.token_env) == ("https://git.example.org/team/*", "TEAM_GIT_TOKEN")


def test_where_webhooks_may_go_is_a_table_of_the_file(tmp_path: Path, empty: Path) -> None:
    (tmp_path / "mcc").mkdir()
    file = tmp_path / "mcc" / "mcc.toml"
    file.write_text('[webhooks]\nallow = ["*.example.com"]\nallow_private = ["127.0.0.1:9000"]\n')
    webhooks = load({"XDG_CONFIG_HOME": str(tmp_path)}, directory=empty).webhooks
    assert (webhooks.allow, webhooks.allow_private) == (("*.example.com",), ("127.0.0.1:9000",))
    file.write_text('[webhooks]\nallow = ["https://example.com"]\n')
    with pytest.raises(BadSettings, match="webhooks"):
        load({"XDG_CONFIG_HOME": str(tmp_path)}, directory=empty)


def test_lists_are_written_with_commas_and_paths_with_colons_too(empty: Path) -> None:
    environ = {"MCC_QUEUES": "a, b", "MCC_WORKSPACE_ROOTS": f"/a{os.pathsep}/b/../c,~/d", "MCC_ALLOWED_HOSTS": "x,y"}
    found = load(environ, directory=empty)
    assert (found.queues, found.allowed_hosts) == (("a", "b"), ("x", "y"))
    assert found.workspace_roots == (Path("/a"), Path("/c"), Path.home() / "d")


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MCC_PORT": "eighty"}, ["MCC_PORT", "integer"]),
        ({"MCC_PORT": "70000"}, ["MCC_PORT", "65535"]),
        ({"MCC_LEASE_SECONDS": "nan"}, ["MCC_LEASE_SECONDS"]),
        ({"MCC_LEASE_SECONDS": "-1"}, ["MCC_LEASE_SECONDS"]),
        ({"MCC_LEASE_SECONDS": "0.5"}, ["MCC_LEASE_SECONDS"]),
        ({"MCC_LEASE_SECONDS": "2", "MCC_RENEW_SECONDS": "1.5"}, ["twice renew_seconds"]),
        ({"MCC_DATABASE_URL": "sqlite://"}, ["MCC_DATABASE_URL", "name a file"]),
        ({"MCC_DATABASE_URL": "sqlite:///:memory:"}, ["MCC_DATABASE_URL", "name a file"]),
        ({"MCC_QUEUES": "a b"}, ["MCC_QUEUES", "'a b'"]),
        ({"MCC_QUEUES": ","}, ["MCC_QUEUES"]),
        ({"MCC_REDIS_URL": "http://x"}, ["MCC_REDIS_URL", "unix://"]),
        ({"MCC_TOKEN": "short"}, ["MCC_TOKEN", "32"]),
        ({"MCC_DATABSE_URL": "sqlite://"}, ["MCC_DATABSE_URL", "MCC_DATABASE_URL"]),
        ({"MCC_CONFIG": "/nowhere/mcc.toml"}, ["MCC_CONFIG", "/nowhere/mcc.toml"]),
        ({"MCC_CONFIG": "mcc.toml"}, ["MCC_CONFIG", "whole path"]),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(empty: Path, environ: dict[str, str], words: list[str]) -> None:
    with pytest.raises(BadSettings) as refused:
        load(environ, directory=empty)
    assert all(word in str(refused.value) for word in words), str(refused.value)
    assert "short" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[mcc]\nprot = 1", ["'prot'", '"port"']),
        ("[model.fast]\nx = 1", ["[model]", '"models"']),
        ("port = 1", ["'port'", "under [mcc]"]),
        ("[mcc", ["cannot be read"]),
        ("[mcc]\nport = 'x'", ["port", "mcc.toml"]),
        ("mcc = 1", ["[mcc]"]),
    ],
)
def test_a_wrong_file_is_told_with_what_is_wrong_in_it(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "mcc.toml").write_text(text)
    with pytest.raises(BadSettings) as refused:
        load({"MCC_DATA_DIR": str(tmp_path)}, directory=tmp_path)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_an_unknown_argument_is_an_error(empty: Path) -> None:
    with pytest.raises(BadSettings, match="port"):
        load({}, directory=empty, prt=1)


def test_what_others_put_into_the_environment_is_let_be(empty: Path) -> None:
    assert load({"MCC_SERVICE_HOST": "10.0.0.1", "MCC_URL": "http://x", "MCC_PORT": ""}, directory=empty).port == 8420


def test_secrets_are_masked_when_settings_are_shown(tmp_path: Path) -> None:
    settings = ServiceSettings.model_validate(
        {
            "data_dir": tmp_path,
            "database_url": "postgresql://u:geheim@h/d",
            "redis_url": "redis://:geheim@h/0",
            "token": LONG,
        }
    )
    shown = settings.shown()
    assert "geheim" not in str(shown) and LONG not in str(shown)
    assert shown["database_url"] == "postgresql://u:***@h/d"
    assert LONG not in repr(settings)


def test_the_process_environment_counts_when_none_is_given(empty: Path) -> None:
    code = "from mcc.settings import load; print(load().port)"
    environ = {**os.environ, "MCC_PORT": "4711"}
    done = subprocess.run([sys.executable, "-c", code], cwd=empty, env=environ, capture_output=True, text=True)
    assert done.stdout == "4711\n", done.stderr


@pytest.mark.parametrize("url", ["redis://:p@ss/w#ord@cache", "sentinel://:p/word@one/main", "redis://mcc:word/0"])
@pytest.mark.parametrize("variable", ["MCC_REDIS_URL", "MCC_DATABASE_URL"])
def test_a_password_that_was_cut_out_of_an_address_is_refused_and_not_said(
    url: str, variable: str, tmp_path: Path
) -> None:
    if variable == "MCC_DATABASE_URL":
        url = url.replace("redis", "postgresql").replace("sentinel", "postgresql+psycopg")
    with pytest.raises(BadSettings) as refused:
        load({"MCC_DATA_DIR": str(tmp_path), variable: url})
    said = str(refused.value)
    assert said.startswith(f"{variable}: ") and "encode @ / # as %40 %2F %23" in said
    assert "word" not in said.replace("password", "") and "ss/" not in said


@pytest.mark.parametrize("prefix", ["two:", "team-a.", "x"])
def test_the_prefix_of_redis_is_a_setting(prefix: str, tmp_path: Path) -> None:
    assert load({"MCC_DATA_DIR": str(tmp_path), "MCC_REDIS_PREFIX": prefix}).redis_prefix == prefix
    assert load({"MCC_DATA_DIR": str(tmp_path)}).redis_prefix == "mcc:"


@pytest.mark.parametrize("prefix", ["*:", "a b", "{x}", "x" * 65])
def test_a_prefix_that_a_pattern_or_a_cluster_would_read_otherwise_is_none(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="MCC_REDIS_PREFIX"):
        load({"MCC_DATA_DIR": str(tmp_path), "MCC_REDIS_PREFIX": prefix})


TRIGGER = '[triggers.{name}]\npath = "{path}"\nscheme = "github"\nsecret_env = ["A_HOOK"]\norder = {{prompt = "x"}}\n'


@pytest.mark.parametrize(
    ("tables", "secret", "sentence"),
    [
        (TRIGGER.format(name="a", path="p"), "short", "mcc.toml, line 4: triggers.a.secret_env: the variable A_HOOK"),
        (TRIGGER.format(name="a", path="/p"), LONG, "mcc.toml, line 2: triggers.a.path: "),
        (
            TRIGGER.format(name="a", path="p") + "wen = 'true'\n",
            LONG,
            "line 6: triggers.a.wen: there is no such key (did",
        ),
        (TRIGGER.format(name="a", path="p") + TRIGGER.format(name="b", path="p"), LONG, "b and a have the same path"),
        (TRIGGER.format(name="a", path="p") + "[doors]\noff = ['trigger']\n", LONG, "mcc.toml, line 7: doors.off"),
    ],
)
def test_a_trigger_that_cannot_be_so_is_told_with_its_place(
    tmp_path: Path, tables: str, secret: str, sentence: str
) -> None:
    (tmp_path / "mcc.toml").write_text(tables)
    environ = {"MCC_DATA_DIR": str(tmp_path), "A_HOOK": secret}
    with pytest.raises(BadSettings) as wrong:
        trigger_secrets(load(environ, directory=tmp_path), environ)
    assert sentence in str(wrong.value)


def test_secrets_of_triggers_are_read_and_redacted_and_not_needed_where_the_door_is_shut(tmp_path: Path) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text(TRIGGER.format(name="a", path="p"))
    environ = {"MCC_DATA_DIR": str(tmp_path), "A_HOOK": LONG}
    settings = load(environ, directory=tmp_path)
    assert trigger_secrets(settings, environ) == {"a": (LONG,)}
    assert LONG in settings.secrets_here(environ)
    file.write_text(TRIGGER.format(name="a", path="p") + "[doors]\noff = ['triggers']\n")
    assert trigger_secrets(load(environ, directory=tmp_path), {}) == {}
