"""Which values of an environment are secret, and which only look similar."""

import json
from pathlib import Path

import pytest

from mcc.redaction import secrets_among

VALUE = "s3cr3t-value-of-twenty"


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "PGPASSWORD", "AWS_CREDENTIALS", "my_token", "DBKEY"]
)
def test_a_long_value_under_such_a_name_is_a_secret(name: str) -> None:
    assert secrets_among({name: VALUE}) == {VALUE}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/usr/local/bin"),
        ("TOKENIZERS_PARALLELISM", "true"),
        ("TOKENIZER_NAME", "bert-base-uncased"),
        ("KEYBOARD", "us-international"),
        ("KEYCLOAK_REALM", "internal-people"),
        ("DB_PASSWORD", "short"),
        ("ADMIN_PASSWORD", "administrator"),
    ],
)
def test_settings_are_no_secrets(name: str, value: str) -> None:
    assert secrets_among({name: value}) == frozenset()


def test_a_path_is_no_secret_but_what_is_in_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{VALUE}\n")
    assert secrets_among({"MCC_TOKEN_FILE": str(tmp_path / "token"), "SECRETS_DIR": str(tmp_path)}) == {VALUE}


def test_what_begins_like_a_path_and_names_nothing_may_be_a_key() -> None:
    assert secrets_among({"SIGNING_KEY": "/9j4AAQSkZJRgABAQ"}) == {"/9j4AAQSkZJRgABAQ"}


def test_a_home_directory_is_no_secret_under_another_name() -> None:
    assert secrets_among({"USER": "long-user-name", "KEYCHAIN_USER": "long-user-name"}) == frozenset()


def test_of_a_key_in_lines_each_line_is_looked_for() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
    assert secrets_among({"TLS_KEY": pem}) == {"MIIEvQIBADANBgkqhkiG9w0", "QEFAASCBKcwggSjAgEAAoIB"}


def test_of_a_service_account_only_the_keys_are_secret(tmp_path: Path) -> None:
    account = {"type": "service_account", "private_key": VALUE, "token_uri": "https://example.org/token", "n": 1}
    (tmp_path / "account.json").write_text(json.dumps(account))
    assert secrets_among({"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json")}) == {VALUE}


def test_passwords_in_addresses_are_secrets_wherever_they_stand() -> None:
    environ = {"HTTPS_PROXY": "http://me:proxy-word@proxy:3128", "WEB": "https://example.org/a@b"}
    sentinels = "sentinel://mcc:main-word@one:26379,two/main?db=1&sentinel_password=watch%2Fword"
    addresses = ("postgresql://mcc:data%2Dword@db/mcc?sslpassword=key-word", sentinels, None, "http://[broken")
    found = secrets_among(environ, addresses=addresses)
    assert found == {"proxy-word", "data-word", "key-word", "main-word", "watch/word"}


def test_logins_are_secret_whole_and_by_their_password() -> None:
    found = secrets_among({"FLOWER_BASIC_AUTH": "ann:flower-word,bob:other-word"}, logins=["mcc:kept-word"])
    assert found >= {"ann:flower-word", "flower-word", "other-word", "mcc:kept-word", "kept-word"}


def test_files_that_are_none_or_too_large_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 20_000)
    environ = {"BIG_KEY": str(tmp_path / "large"), "NULL_SECRET": "/dev/zero"}
    assert secrets_among(environ) == frozenset()
