"""Keys printed by a command: run without a shell and within bounds, cached, renewed when refused, never shown."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import BadReply, ModelError
from drone.models.checks import check
from drone.models.guards import RedactedModels
from drone.models.providers import MOST_BYTES, KeyCommand, why_not_run
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from tests.drone.models.loopback import Loopback

FIRST, SECOND = "short-lived-key-number-1", "short-lived-key-number-2"
COUNTING = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
times = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(times))
print(f"short-lived-key-number-{times}")
"""


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def counting(place: Path) -> tuple[str, ...]:
    """A command that prints a different key each time."""
    return python(COUNTING, str(place / "times"))


async def test_a_key_is_kept_until_it_is_refused_or_its_time_is_over(tmp_path: Path) -> None:
    learnt: list[str] = []
    now = [0.0]
    command = KeyCommand(counting(tmp_path), learnt.append, key_seconds=60, clock=lambda: now[0])
    assert [await command.key(), await command.key()] == [FIRST, FIRST]
    command.refused("another key")
    assert await command.key() == FIRST
    command.refused(FIRST)
    assert await command.key() == SECOND
    now[0] = 60.0
    assert await command.key() == "short-lived-key-number-3"
    assert learnt == [FIRST, SECOND, "short-lived-key-number-3"]


async def test_a_command_runs_without_a_shell_and_outside_the_drone_s_directory() -> None:
    command = KeyCommand(python("import os, sys; print(sys.argv[1] + os.getcwd())", "$HOME;`id`"), lambda key: None)
    assert await command.key() == "$HOME;`id`/"


async def test_a_helper_that_a_command_leaves_running_is_not_waited_for() -> None:
    leaving = python(
        "import subprocess, sys; print('the-key', flush=True);"
        "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])"
    )
    assert await KeyCommand(leaving, lambda key: None, seconds=20).key() == "the-key"


@pytest.mark.parametrize(
    ("argv", "kind", "said"),
    [
        (("no-such-program-here",), ModelError, "cannot be run: No such file"),
        (python("import sys; sys.exit('first\\nlog in again')"), BadReply, "ended with status 1: log in again."),
        (python("print()"), ModelError, "did not print a key and nothing else"),
        (python("print('one key'); print('another key')"), ModelError, "did not print a key and nothing else"),
        (python("print('one key of two words')"), ModelError, "did not print a key and nothing else"),
        (python("print('<html>one-key</html>')"), ModelError, "did not print a key and nothing else"),
        (python(f"print('k' * {MOST_BYTES * 40})"), ModelError, "did not print a key and nothing else"),
        (python("import signal; signal.pause()"), BadReply, "no key within"),
    ],
)
async def test_a_command_that_prints_no_key_is_an_error_that_says_why(
    argv: tuple[str, ...], kind: type[ModelError], said: str
) -> None:
    command = KeyCommand(argv, lambda key: None, seconds=0.5 if said == "no key within" else 30)
    with pytest.raises(kind, match=said) as error:
        await command.key()
    assert "kkk" not in str(error.value) and "one key" not in str(error.value)


def table(place: Path, **more: Any) -> dict[str, ModelConfig]:
    known = {"provider": "openai", "model": "m", "base_url": "https://gateway.test/v1", "key_command": counting(place)}
    return {"gateway": ModelConfig(**{**known, "retry_seconds": 0, **more})}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_replaced_once_and_the_question_asked_again(
    tmp_path: Path, bench: Any, status: int
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] == f"Bearer {FIRST}":
            return httpx.Response(status, json={"error": {"message": f"The token {FIRST} has expired"}})
        return httpx.Response(200, json={"choices": [{"message": {"content": f"with {SECOND}"}}]})

    provider = bench.Provider(answer)
    settings = Settings(models=table(tmp_path))
    redactor = settings.redactor
    models = Models(settings, wire=Loopback(provider))
    reply = await RedactedModels(models, redactor).get("gateway").ask(bench.asking(), bench.listener)
    assert reply.text == "with [redacted]"
    assert [request.headers["authorization"] for request in provider.requests] == [
        f"Bearer {FIRST}",
        f"Bearer {SECOND}",
    ]
    assert "Asking again with a new key" in bench.listener.retries[0][0] and FIRST not in bench.listener.retries[0][0]
    assert redactor.text(f"{FIRST} {SECOND}") == settings.redactor.text(f"{FIRST} {SECOND}") == "[redacted] [redacted]"


async def test_a_key_that_is_refused_again_ends_the_call(tmp_path: Path, bench: Any) -> None:
    provider = bench.Provider(httpx.Response(401, json={"error": {"message": "no"}}))
    models = Models(Settings(models=table(tmp_path)), wire=Loopback(provider))
    with pytest.raises(ModelError, match="answered 401"):
        await models.get("gateway").ask(bench.asking(), bench.listener)
    assert len(provider.requests) == 2


async def test_models_of_one_command_share_its_key_and_a_check_says_that_it_was_accepted(
    tmp_path: Path, bench: Any
) -> None:
    provider = bench.Provider(httpx.Response(200, json={"choices": [{"message": {"content": "Ready"}}]}))
    both = {**table(tmp_path), "other": table(tmp_path)["gateway"]}
    models = Models(Settings(models=both), wire=Loopback(provider))
    assert (await check(models, "gateway")).key == (await check(models, "other")).key == "accepted"
    assert {request.headers["authorization"] for request in provider.requests} == {f"Bearer {FIRST}"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key_command": "./token.sh"}, "whole path"),
        ({"key_command": [""]}, "whole path"),
        ({"key_command": "token 'half"}, "cannot be read as a command"),
        ({"api_key_env": "A_KEY"}, "leave one of them out"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        table(tmp_path, **more)


def test_a_command_may_be_one_text() -> None:
    command = "gcloud auth print-access-token --account 'me too'"
    config = ModelConfig.model_validate({"provider": "vertex", "model": "m", "key_command": command})
    assert config.key_command == ("gcloud", "auth", "print-access-token", "--account", "me too")


def test_a_missing_program_is_reported_even_with_an_unreadable_directory_on_the_path() -> None:
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert why_not_run("no-such-program-here", refused) == "No such file on the PATH"
    assert why_not_run("/no/such/program-here", refused) == "Permission denied"
