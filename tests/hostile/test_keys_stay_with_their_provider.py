"""The key of a known provider is sent to that provider, or where its user said so in so many words; to nobody else."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from drone.agent.ports.model import Ask, ModelError
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings, load
from mcc.configuration.providers import HOSTS, PROVIDERS, refusal
from mcc.doctor.examination import CHECKS
from mcc.doctor.installation import Installation
from mcc.local.programs import ChildCommands
from mcc.settings import load as load_service
from mcc.transcript.messages import UserMessage
from tests.drone.models.conftest import RecordingListener
from tests.drone.models.loopback import Loopback
from tests.hostile.checkout import SECRETS

KEY = "sk-openai-0123456789"
ELSEWHERE = "https://gateway.example/v1"


def config(**more: Any) -> ModelConfig:
    return ModelConfig(**{"provider": "openai", "model": "m", "api_key_env": "OPENAI_API_KEY", **more})


def settings(**more: Any) -> Settings:
    return Settings(**{"keys": {"OPENAI_API_KEY": SecretStr(KEY)}, "ollama_base_url": "http://127.0.0.1:9", **more})


def asked(requests: list[httpx.Request]) -> list[str]:
    """Where a model was asked, without the question for the size of its context."""
    return [str(one.url) for one in requests if one.method == "POST"]


async def sent(told: Settings, name: str, *answers: httpx.Response) -> list[httpx.Request]:
    """The requests of one call, whatever comes of it."""
    requests: list[httpx.Request] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        done = {"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}], "output": []}
        return left.pop(0) if left else httpx.Response(200, json=done)

    models = Models(told, wire=Loopback(httpx.MockTransport(answer)))
    try:
        await models.get(name).ask(Ask("", (UserMessage("Hello"),), ()), RecordingListener())
    except ModelError:
        pass
    finally:
        await models.aclose()
    return requests


def problem(told: Settings, name: str) -> str:
    return next(one.problem or "" for one in Models(told).capabilities() if one.name == name)


@pytest.mark.parametrize(
    "address",
    [
        ELSEWHERE,
        "http://127.0.0.1:4000/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evilapi.openai.com/v1",
        "https://openai.com/v1",
        "https://api.anthropic.com/v1",
    ],
)
async def test_a_known_key_is_not_sent_to_another_host_and_the_listing_says_what_to_do(address: str) -> None:
    told = settings(models={"fast": config(base_url=address)})
    assert await sent(told, "fast") == []
    said = problem(told, "fast")
    assert all(word in said for word in ("OPENAI_API_KEY", "api_key_env", "OPENAI_BASE_URL", "send_key_to_other_host"))
    assert KEY not in said


async def test_a_key_of_one_provider_is_not_sent_to_another_that_is_known() -> None:
    """Also where no base_url is written: the form decides on the host then."""
    told = settings(models={"fast": config(provider="anthropic")}, anthropic_base_url=None)
    assert await sent(told, "fast") == []


@pytest.mark.parametrize("address", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
async def test_a_known_key_is_sent_to_its_own_provider(address: str | None) -> None:
    requests = await sent(settings(models={"fast": config(base_url=address)}), "fast")
    assert [request.headers["authorization"] for request in requests] == [f"Bearer {KEY}"]


async def test_the_user_may_say_that_a_key_goes_elsewhere() -> None:
    named = settings(models={"fast": config(base_url=ELSEWHERE)}, openai_base_url="https://gateway.example/other")
    assert len(asked(await sent(named, "fast"))) == 1
    written = settings(models={"fast": config(base_url=ELSEWHERE, send_key_to_other_host=True)})
    assert len(asked(await sent(written, "fast"))) == 1
    other_port = settings(models={"fast": config(base_url=ELSEWHERE)}, openai_base_url="https://gateway.example:444")
    assert await sent(other_port, "fast") == []


async def test_a_file_that_names_a_provider_s_address_does_not_send_the_key_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may; the setting is the same, so who said it is what counts."""
    for name in [name for name in os.environ if name.startswith(("MCC_", "DRONE_", "OPENAI_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "mcc.toml").write_text(f'[drone]\nopenai_base_url = "{ELSEWHERE}"\n')
    keys = {"OPENAI_API_KEY": SecretStr(KEY)}
    told = load(data_dir=tmp_path, keys=keys)
    assert told.base_urls == {"openai": ELSEWHERE}
    assert await sent(told, "openai/m") == []
    monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE)
    assert asked(await sent(load(data_dir=tmp_path, keys=keys), "openai/m")) == [f"{ELSEWHERE}/chat/completions"]


async def test_a_key_does_not_follow_a_redirect() -> None:
    moved = httpx.Response(307, headers={"location": f"{ELSEWHERE}/chat/completions"})
    requests = await sent(settings(models={"fast": config()}), "fast", moved)
    assert [request.url.host for request in requests] == ["api.openai.com"]


def test_every_provider_that_is_known_by_name_has_hosts_for_its_key() -> None:
    for one in PROVIDERS:
        if one.key_name:
            assert not one.base_url or refusal(one.key_name, one.base_url, None) is None
            assert one.key_name in HOSTS and refusal(one.key_name, ELSEWHERE, None)


@pytest.mark.parametrize(
    ("key_name", "address", "its_own"),
    [
        ("AZURE_OPENAI_API_KEY", "https://mine.openai.azure.com/openai/v1", True),
        ("AZURE_OPENAI_API_KEY", "https://openai.azure.com.evil.example/openai/v1", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1", True),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://bedrock-runtime.evil.elb.amazonaws.com", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://evil.s3.amazonaws.com", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://amazonaws.com", False),
    ],
)
def test_where_every_user_has_an_own_address_the_key_goes_to_those_alone(
    key_name: str, address: str, its_own: bool
) -> None:
    assert (refusal(key_name, address, None) is None) is its_own


def test_the_doctor_tells_a_model_whose_key_would_go_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(
        f'[models.fast]\nprovider = "openai"\nmodel = "m"\nbase_url = "{ELSEWHERE}"\napi_key_env = "OPENAI_API_KEY"\n'
    )
    environ = {"MCC_DATA_DIR": str(tmp_path), "OPENAI_API_KEY": KEY}
    found = list(CHECKS["keys"](Installation(load_service(environ, directory=tmp_path), environ, "", 1.0)))
    assert any(one.state == "warning" and "gateway.example" in one.detail for one in found)
    assert KEY not in str(found)
    named = environ | {"OPENAI_BASE_URL": ELSEWHERE}
    found = list(CHECKS["keys"](Installation(load_service(named, directory=tmp_path), named, "", 1.0)))
    assert all(one.state == "ok" for one in found)


def test_only_drones_are_given_what_could_be_a_key(tmp_path: Path) -> None:
    inherited = {"PATH": "/bin", "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PGPASSWORD": "pg", **SECRETS}
    here = ChildCommands.of(load_service(inherited, directory=tmp_path), inherited, tmp_path, "unix:///s")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        others: list[Mapping[str, str]] = [
            here.api(listening).environment,
            here.flower(1, "mcc:login").environment,
            here.redis(["redis-server"]).environment,
        ]
    for environment in others:
        assert not set(SECRETS.values()) & set(environment.values())
    assert others[0]["PGPASSWORD"] == "pg" and others[0]["XDG_CONFIG_HOME"] == str(tmp_path)
    assert set(SECRETS.items()) <= set(here.drone("drone-1", None)().environment.items())
