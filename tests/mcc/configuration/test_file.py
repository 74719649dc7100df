"""Which mcc.toml counts, and the reasons given for ignored ones."""

import os
from pathlib import Path

import pytest

from drone.cli import app
from mcc.configuration.file import KIND, MOST_BYTES, ConfigProblem, Configuration, configuration, laid_over, line_of
from mcc.configuration.trust import TrustStore, digest_of
from tests.mcc.cli.in_process import CliRunner


def at(home: Path, directory: Path | None = None, **environ: str) -> Configuration:
    found = {"XDG_CONFIG_HOME": str(home / "config"), **environ}
    return configuration(found, directory or home / "elsewhere", home / "data")


def written(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_nothing_is_told_where_there_is_no_file(tmp_path: Path) -> None:
    assert at(tmp_path) == Configuration() and at(tmp_path).summary == ""


def test_the_first_counts_and_the_others_are_told(tmp_path: Path) -> None:
    data = written(tmp_path / "data" / "mcc.toml")
    assert at(tmp_path).summary == f"Configuration: {data}."
    own = written(tmp_path / "config" / "mcc" / "mcc.toml")
    assert at(tmp_path).summary == f"Configuration: {own}. Passed over: {data} ({own} comes first)."
    named = written(tmp_path / "named.toml")
    assert at(tmp_path, MCC_CONFIG=str(named)).own == named
    assert len(at(tmp_path, MCC_CONFIG=str(named)).passed_over) == 2
    assert at(tmp_path, MCC_CONFIG=str(own)).passed_over == (f"{data} ({own} comes first)",)


def test_a_file_that_the_user_names_counts_wherever_it_lies(tmp_path: Path) -> None:
    """The environment belongs to the user. A file of the checkout that it names is not reported as ignored."""
    here = written(tmp_path / "checkout" / "mcc.toml", "[mcc]\nport = 1\n")
    found = at(tmp_path, tmp_path / "checkout", MCC_CONFIG=str(here))
    assert (found.own, found.passed_over, found.table("mcc")) == (here, (), {"port": 1})


@pytest.mark.parametrize("named", ["mcc.toml", "./mcc.toml", "config/../mcc.toml"])
def test_a_name_that_depends_on_where_a_program_is_started_is_refused(tmp_path: Path, named: str) -> None:
    """It would name a file of whatever checkout the program is started in."""
    written(tmp_path / "checkout" / "mcc.toml")
    (tmp_path / "checkout" / "config").mkdir()
    with pytest.raises(ConfigProblem, match=f"MCC_CONFIG names {named}, .* name its whole path"):
        at(tmp_path, tmp_path / "checkout", MCC_CONFIG=named)


def test_a_directory_in_the_place_of_a_file_is_told_in_plain_words(tmp_path: Path) -> None:
    file = written(tmp_path / "checkout" / "mcc.toml", "[defaults]\nmodel = 'offline'\n")
    TrustStore.within(tmp_path / "config" / "mcc").keep(KIND, {file: digest_of(file.read_bytes())})
    assert at(tmp_path, file.parent).trusted == file
    file.unlink()
    file.mkdir()
    said = f"Passed over: {file} (it was trusted and cannot be read: a directory stands in its place)."
    assert said in at(tmp_path, file.parent).summary
    (tmp_path / "data" / "mcc.toml").mkdir(parents=True)
    with pytest.raises(ConfigProblem, match="cannot be read: a directory stands in its place"):
        at(tmp_path)


def test_the_directory_of_the_user_s_own_files_is_no_checkout(tmp_path: Path) -> None:
    data = written(tmp_path / "data" / "mcc.toml")
    assert (at(tmp_path, data.parent).own, at(tmp_path, data.parent).passed_over) == (data, ())


def test_a_relative_base_directory_is_ignored(tmp_path: Path) -> None:
    """It would name a file of whatever directory the program is started in."""
    written(tmp_path / "checkout" / "config" / "mcc" / "mcc.toml")
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": "config"}
    assert configuration(environ, tmp_path / "checkout", tmp_path / "data").own is None


def test_a_file_that_everybody_can_write_is_passed_over(tmp_path: Path) -> None:
    written(tmp_path / "data" / "mcc.toml").chmod(0o666)
    assert at(tmp_path).own is None and "everybody can write it" in at(tmp_path).summary


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_counts_only_where_it_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "data" / "mcc.toml")
    os.chown(file, 12_345, -1)
    assert at(tmp_path).own is None and "belongs to another user" in at(tmp_path).summary
    assert at(tmp_path, MCC_CONFIG=str(file)).own == file


def test_a_directory_s_name_is_no_part_of_the_command_that_is_told(tmp_path: Path) -> None:
    """People copy the command into a shell."""
    file = written(tmp_path / "x; touch evil" / "mcc.toml")
    assert f"mcc config trust '{file}'" in at(tmp_path, file.parent).summary


def test_what_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "data" / "mcc.toml"
    for text, said in (
        ("x = " + "[" * 5_000, "cannot be read"),
        ("#" * (MOST_BYTES + 1), "larger"),
        ("port = 1", "stands in no table"),
        ("[model.x]", 'did you mean "models"'),
    ):
        written(file, text)
        with pytest.raises(ConfigProblem, match=said):
            at(tmp_path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigProblem, match="no regular file"):
        at(tmp_path)


def test_many_and_long_names_are_told_in_few_words() -> None:
    _, left = laid_over({}, {"mcc": {f"{number}{'x' * 100}": 1 for number in range(100)}, "drone": {}, "loose": 1})
    assert len(left) == 13 and left[-1] == "90 more" and max(map(len, left)) < 70


TRUSTED = {"model": "n", "api": "chat", "context_tokens": 9, "max_output_tokens": 9, "price": {"input": 1, "output": 1}}
OWN_ONLY = {
    "base_url": "https://evil.test",
    "api_key_env": "A",
    "key_command": ["a"],
    "key_seconds": 9,
    "extra_body": {"a": 1},
    "extra_headers": {"a": "b"},
    "allow_http": True,
    "proxy": "http://evil.test",
    "first_token_seconds": 1,
    "stall_seconds": 1,
    "call_seconds": 1,
    "retry_seconds": 1,
    "fallback": ["evil"],
    "stream": False,
    "cache_ttl": "1h",
    "cache_seconds": 600,
    "cache_replies": True,
    "send_key_to_other_host": True,
}


@pytest.mark.parametrize("key", [*TRUSTED, *OWN_ONLY, "thinking", "temperature"])
def test_of_a_trusted_file_each_key_of_a_model_counts_or_is_told(key: str) -> None:
    known = {**TRUSTED, **OWN_ONLY, "thinking": "low", "temperature": 0.5}
    tables, left = laid_over({"models": {"m": {"model": "mine"}}}, {"models": {"m": {key: known[key]}}})
    assert left == ((f"[models.m] {key}",) if key in OWN_ONLY else ())
    assert tables["models"]["m"] == {"model": "mine"} | ({} if key in OWN_ONLY else {key: known[key]})


def test_tables_of_defaults_and_roles_are_laid_over_key_by_key() -> None:
    tables, left = laid_over({"roles": {"explore": "a", "verify": "v"}}, {"roles": {"explore": "b"}})
    assert (tables, left) == ({"roles": {"explore": "b", "verify": "v"}}, ())
    tables, left = laid_over({"defaults": {"model": "a", "kept": 1}}, {"defaults": {"model": "b"}, "models": {"m": 1}})
    assert (tables, left) == ({"defaults": {"model": "b", "kept": 1}}, ("[models] m",))


TEXT = """# a comment with = and [brackets]
[mcc]
port = 1
[models.fast]
provider = "openai"
"base-url" = "x"
price = {input = 1, outptu = 2}
[models."two words".price]
input = "much"
[roles]
defaults.x = 1
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("mcc", "port"), 3),
        (("models", "fast", "base-url"), 6),
        (("models", "fast", "price", "outptu"), 7),
        (("models", "fast", "model"), 4),
        (("models", "two words", "price", "input"), 9),
        (("roles", "defaults", "x"), 11),
        (("roles",), 10),
        (("port",), None),
    ],
)
def test_a_key_is_found_by_its_line(keys: tuple[str, ...], line: int | None) -> None:
    assert line_of(TEXT, keys) == line


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[mcc]\n\n[models.a]\nprovider = 'offline'\nbase-url = 1\n", ", line 5: models.a.base-url: there is no"),
        ("[drone]\n\nslot = 5\n", ", line 3: there is no setting 'slot' (did you mean \"slots\"?)."),
        ("[drone]\nslots = 'many'\n", ", line 2: slots: Input should be"),
        ("\n[nodels.a]\nx = 1\n", ", line 2: there is no table [nodels] (did you mean"),
    ],
)
def test_what_drones_cannot_use_is_told_with_file_and_line(tmp_path: Path, said: str, told: str) -> None:
    file = tmp_path / "mcc.toml"
    file.write_text(said)
    done = CliRunner().invoke(app, ["check"], env={"MCC_CONFIG": str(file)})
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{file}{told}")
