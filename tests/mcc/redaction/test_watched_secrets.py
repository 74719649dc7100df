"""A long-running process also redacts secrets that were created after it started."""

from pathlib import Path

from mcc.redaction import FLOWER_FILE, TOKEN_FILE, WatchedSecrets, text_of
from mcc.settings import load, watched_secrets


def test_what_a_file_says_is_secret_once_it_is_there_and_stays_so_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    redactor = WatchedSecrets([file], lambda: frozenset({text_of(file)}))
    assert redactor().text("the first token, the other one") == "the first token, the other one"
    file.write_text("the first token")
    assert redactor().text("the first token, the other one") == "[redacted], the other one"
    file.write_text("the other one")
    assert redactor().text("the first token, the other one") == "[redacted], [redacted]"
    assert redactor() is redactor()


def test_a_service_learns_the_login_of_a_flower_that_is_started_after_it(tmp_path: Path) -> None:
    redactor = watched_secrets(load({"MCC_DATA_DIR": str(tmp_path)}, directory=tmp_path), {})
    assert redactor().text("a-password-of-flower") == "a-password-of-flower"
    (tmp_path / FLOWER_FILE).write_text("mcc:a-password-of-flower")
    (tmp_path / TOKEN_FILE).write_text("t" * 40)
    assert redactor().text(f"a-password-of-flower {'t' * 40}") == "[redacted] [redacted]"
