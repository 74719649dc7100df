"""Which token a client sends: what is set, what `mcc login` has kept for that service, what this machine has."""

import json
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcc.client.address import find
from mcc.client.errors import NoToken
from mcc.configuration.login_tokens import CredentialsProblem, LoginToken, LoginTokens, origin_of

URL = "https://mcc.example"


def kept(token: str) -> LoginToken:
    return {"token": token, "id": "id", "expires_at": "2030-01-01T00:00:00+00:00"}


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "MCC_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def logins(tmp_path: Path) -> LoginTokens:
    return LoginTokens.within(tmp_path / "config" / "mcc")


def test_what_is_set_comes_before_a_login_and_that_before_the_token_of_this_machine(
    environ: Mapping[str, str], logins: LoginTokens, tmp_path: Path
) -> None:
    here = "http://127.0.0.1:8420"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").write_text("of the machine\n")
    assert find(here, None, environ).token == "of the machine"
    logins.keep(here, kept("of the login"))
    assert find(here, None, environ).token == "of the login"
    (file := tmp_path / "file").write_text("of the file\n")
    assert find(here, None, {**environ, "MCC_TOKEN_FILE": str(file)}).token == "of the file"
    assert find(here, None, {**environ, "MCC_TOKEN": "s" * 40}).token == "s" * 40
    assert find(here, "given", environ).token == "given"


def test_no_service_elsewhere_gets_the_token_of_this_machine_or_of_another_service(
    environ: Mapping[str, str], logins: LoginTokens, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").write_text("of the machine")
    logins.keep("https://mcc.example:8443", kept("another port"))
    logins.keep("http://mcc.example", kept("in clear"))
    with pytest.raises(NoToken, match="mcc login"):
        find(URL, None, environ)
    logins.keep(URL, kept("its own"))
    assert find("https://MCC.example:443/agents/api/v1", None, environ).token == "its own"


def test_the_file_is_the_users_alone_and_replaced_as_a_whole(logins: LoginTokens) -> None:
    logins.keep(URL, kept("one"))
    first = logins.file.stat()
    assert stat.S_IMODE(first.st_mode) == 0o600 and stat.S_IMODE(logins.file.parent.stat().st_mode) == 0o700
    before = logins.file.open()
    logins.keep(URL, kept("two"))
    assert json.load(before)[URL]["token"] == "one" and logins.file.stat().st_ino != first.st_ino
    assert [each.name for each in logins.file.parent.iterdir()] == ["credentials.json"]
    logins.forget(URL)
    assert logins.of(URL) is None


def test_what_several_keep_at_once_is_all_kept(logins: LoginTokens) -> None:
    urls = [f"http://h{number}.example" for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda url: logins.keep(url, kept(url)), urls))
    assert [each and each["token"] for each in map(logins.of, urls)] == urls


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": {"token": 1}}', "\xff", "[" * 100_000])
def test_a_file_that_is_not_ours_is_told_and_left(
    logins: LoginTokens, content: str, environ: Mapping[str, str]
) -> None:
    logins.file.parent.mkdir(parents=True)
    logins.file.write_bytes(content.encode("latin-1"))
    logins.file.chmod(0o600)
    with pytest.raises(CredentialsProblem, match="remove it"):
        logins.keep(URL, kept("x"))
    with pytest.raises(NoToken, match="remove it"):
        find(URL, None, environ)
    assert logins.file.read_bytes() == content.encode("latin-1")


def test_a_file_that_others_can_read_or_a_link_to_one_is_not_read(logins: LoginTokens, tmp_path: Path) -> None:
    logins.keep(URL, kept("x"))
    logins.file.chmod(0o640)
    with pytest.raises(CredentialsProblem, match="chmod 600"):
        logins.of(URL)
    logins.file.rename(other := tmp_path / "other")
    logins.file.symlink_to(other)
    with pytest.raises(CredentialsProblem, match="symlink"):
        logins.of(URL)


def test_a_directory_of_others_does_not_matter_where_nobody_has_logged_in(logins: LoginTokens) -> None:
    logins.file.parent.mkdir(parents=True)
    logins.file.parent.chmod(0o777)
    assert logins.of(URL) is None


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTP://Host/x?y", "http://host"),
        ("https://host:443", "https://host"),
        ("http://[::1]:8420/", "http://[::1]:8420"),
    ],
)
def test_an_origin_is_what_browsers_take_for_one(url: str, origin: str) -> None:
    assert origin_of(url) == origin
