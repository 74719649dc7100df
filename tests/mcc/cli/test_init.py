"""`mcc init`: writes one model that has answered, never a key, and never over a file."""

import contextlib
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from drone.settings import Settings
from tests.drone.worker.test_model_checks_by_drones import KEY, provider
from tests.forking import popen

MCC = [sys.executable, "-P", "-m", "mcc.cli.main", "init"]


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "MCC_DATA_DIR": str(home / "data"), **more}


def init(home: Path, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return popen.run(
        [*MCC, *options],
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def file_of(home: Path) -> Path:
    return home / ".config/mcc/mcc.toml"


def test_a_model_that_answers_is_written_with_the_name_of_its_key(tmp_path: Path) -> None:
    with provider() as url:
        options = ["--provider", "openai", "--base-url", url, "--model", "m", "--key-env", "MY_KEY", "--yes"]
        done = init(tmp_path, *options, MY_KEY=KEY)
    assert done.returncode == 0, done.stderr
    file = file_of(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY not in file.read_text() + done.stdout + done.stderr
    assert tomllib.loads(file.read_text()) == {
        "models": {"main": {"provider": "openai", "base_url": url, "model": "m", "api_key_env": "MY_KEY"}},
        "defaults": {"model": "main"},
    }
    assert Settings(environment(tmp_path)).defaults.model == "main"


def test_a_model_that_refuses_the_key_is_not_written(tmp_path: Path) -> None:
    with provider() as url:
        options = ["--provider", "openai", "--base-url", url, "--model", "m", "--key-env", "MY_KEY", "--yes"]
        done = init(tmp_path, *options, MY_KEY="wrong-key-wrong-key")
        assert (done.returncode, file_of(tmp_path).exists()) == (1, False)
        assert "refused" in done.stdout + done.stderr
        assert init(tmp_path, *options, "--no-check", MY_KEY="wrong-key-wrong-key").returncode == 0
    assert file_of(tmp_path).exists()


@pytest.mark.parametrize("place", [".config/mcc/mcc.toml", "elsewhere.toml"])
def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# mine\n")
    named = {} if place.startswith(".config") else {"MCC_CONFIG": str(file)}
    done = init(tmp_path, "--provider", "vllm", "--model", "m", "--yes", "--no-check", **named)
    assert (done.returncode, file.read_text()) == (2, "# mine\n")
    assert str(file) in done.stderr


@pytest.mark.parametrize(
    ("options", "more", "said"),
    [
        (["--provider", "opnai", "--yes"], {}, 'did you mean "openai"?'),
        (["--yes"], {}, "No key of a provider is set"),
        (["--provider", "openai", "--yes"], {}, "OPENAI_API_KEY is not set"),
        (["--provider", "azure", "--yes"], {"AZURE_OPENAI_API_KEY": "k"}, "--base-url"),
        (["--provider", "vllm", "--yes"], {}, "--model"),
        (["--provider", "openai"], {}, "no terminal"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    tmp_path: Path, options: list[str], more: dict[str, str], said: str
) -> None:
    done = init(tmp_path, *options, **more)
    assert (done.returncode, file_of(tmp_path).exists()) == (2, False)
    assert said in done.stderr


def test_a_key_in_the_place_of_its_name_is_refused_and_not_repeated(tmp_path: Path) -> None:
    done = init(tmp_path, "--provider", "openai", "--key-env", "sk-4711-secret", "--yes")
    assert done.returncode == 2
    assert "sk-4711" not in done.stdout + done.stderr


def test_a_provider_whose_key_is_set_is_found(tmp_path: Path) -> None:
    done = init(tmp_path, "--yes", "--no-check", MISTRAL_API_KEY="k")
    assert done.returncode == 0, done.stderr
    written = tomllib.loads(file_of(tmp_path).read_text())["models"]["main"]
    assert (written["provider"], written["api_key_env"]) == ("mistral", "MISTRAL_API_KEY")


def test_at_a_terminal_it_asks_for_what_the_options_leave_out(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    asking = popen.Popen(
        [*MCC, "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--no-check"],
        env=environment(tmp_path, OPENAI_API_KEY=KEY),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    for question in (b"Provider [openai]", b"[OPENAI_API_KEY]"):
        # What is typed before a question may be thrown away by the terminal.
        while question not in shown and (piece := os.read(ours, 65_536)):
            shown += piece
        os.write(ours, b"\n")
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    assert asking.wait() == 0, shown
    assert tomllib.loads(file_of(tmp_path).read_text())["models"]["main"]["api_key_env"] == "OPENAI_API_KEY"
