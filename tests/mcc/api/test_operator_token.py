"""The operator's token, and the rule that a service open to others needs one."""

import stat
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from mcc.settings import BadSettings, ServiceSettings, operator_token, refuse_open_door, token_file


def test_the_first_run_makes_a_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path / "new")
    token = operator_token(settings)
    assert len(token) >= 43 and operator_token(settings) == token
    file = token_file(settings)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_two_that_start_at_once_have_the_same_token(tmp_path: Path) -> None:
    settings, found = ServiceSettings(data_dir=tmp_path), []
    ready = threading.Barrier(8)

    def start() -> None:
        ready.wait()
        found.append(operator_token(settings))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_a_configured_token_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    assert operator_token(ServiceSettings(data_dir=tmp_path, token=SecretStr("t" * 32))) == "t" * 32
    (tmp_path / "own").write_text("f" * 40 + "\n")
    assert operator_token(ServiceSettings(data_dir=tmp_path, token_file=tmp_path / "own")) == "f" * 40
    assert [file.name for file in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize("content", [None, "short", "\xff"])
def test_a_token_file_that_cannot_be_used_is_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "own").write_bytes(content.encode("latin-1"))
    with pytest.raises(BadSettings, match="own"):
        operator_token(ServiceSettings(data_dir=tmp_path, token_file=tmp_path / "own"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "mcc.example", ""])
def test_listening_to_others_without_a_chosen_token_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises((BadSettings, ValueError)) as refused:
        refuse_open_door(ServiceSettings(data_dir=tmp_path, host=host))
    assert not host or "MCC_TOKEN" in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_chosen_token(tmp_path: Path, host: str) -> None:
    refuse_open_door(ServiceSettings(data_dir=tmp_path, host=host))


def test_a_chosen_token_opens_the_door(tmp_path: Path) -> None:
    refuse_open_door(ServiceSettings(data_dir=tmp_path, host="0.0.0.0", token=SecretStr("t" * 32)))
    refuse_open_door(ServiceSettings(data_dir=tmp_path, host="0.0.0.0", token_file=tmp_path / "own"))
