"""Model checks: one call, and what it shows about key, context size, tools, streaming, thinking, caching and cost."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from drone.models.checks import check, check_all
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from mcc.contracts.answers import ModelCheck
from mcc.redaction import Redactor
from tests.drone.models.loopback import Loopback

SECRET = "sk-very-secret-key-0123456789"


class SettingsWithKeys(Settings):
    """Settings that know only the given keys."""

    def key(self, name: str) -> str | None:
        given = self.keys.get(name)
        return given.get_secret_value() if given else None


def config(**more: Any) -> ModelConfig:
    known = {"provider": "openai", "model": "m", "base_url": "https://fast.test/v1", "api_key_env": "FAST"}
    return ModelConfig(**{**known, **more})


def models(provider: Any, *, key: str = SECRET, **table: ModelConfig) -> Models:
    keys = {"FAST": SecretStr(key)} if key else {}
    return Models(SettingsWithKeys(data_dir=Path(), models=table, keys=keys), wire=Loopback(provider))


def called(bench: Any, **usage: Any) -> Any:
    function = {"name": "report_ready", "arguments": '{"ready": true}'}
    told = {"prompt_tokens": 120, "completion_tokens": 20, **usage}
    return bench.streamed(
        bench.sse(
            bench.chunk(reasoning_content="I shall."),
            bench.chunk(tool_calls=[{"index": 0, "id": "c1", "function": function}]),
            bench.chunk("tool_calls"),
            {"choices": [], "usage": told},
            "[DONE]",
        )
    )


async def test_a_model_that_works_shows_all_of_it_in_one_call(bench: Any) -> None:
    provider = bench.Provider(called(bench, prompt_tokens_details={"cached_tokens": 64}))
    price = {"input": 1.0, "output": 2.0}
    row = await check(models(provider, fast=config(context_tokens=32_000, price=price)), "fast")
    assert (row.problem, row.key, row.tools, row.streaming, row.thinking) == (None, "accepted", True, True, True)
    assert (row.context_tokens, row.window_from, row.caching) == (32_000, "configuration", "seen")
    assert row.model == "openai/m" and row.first_token_ms is not None and row.seconds is not None
    assert row.usage is not None and row.usage.cost_usd == pytest.approx(160 / 1_000_000)
    (request,) = provider.requests
    body = json.loads(request.content)
    assert body["stream"] is True and [tool["function"]["name"] for tool in body["tools"]] == ["report_ready"]
    assert 0 < body.get("max_completion_tokens", body.get("max_tokens")) <= 4_096


async def test_a_check_uses_the_model_s_own_settings(bench: Any) -> None:
    provider = bench.Provider(called(bench))
    await check(models(provider, fast=config(model="gpt-5.2", thinking="high", temperature=0.2)), "fast")
    assert (provider.body["reasoning_effort"], provider.body["temperature"]) == ("high", 0.2)
    assert provider.body.get("max_completion_tokens", provider.body.get("max_tokens")) > 4_096


async def test_a_model_without_tool_calls_is_reported_as_useless_for_agents(bench: Any) -> None:
    told = {"prompt_tokens": 9, "completion_tokens": 2}
    whole = {"choices": [{"message": {"content": "Ready!"}, "finish_reason": "stop"}], "usage": told}
    row = await check(models(bench.Provider(httpx.Response(200, json=whole)), fast=config(stream=False)), "fast")
    assert (row.problem, row.tools, row.streaming, row.thinking, row.caching) == (None, False, False, False, None)
    assert "did not call the tool" in row.notes[0]
    assert row.usage is not None and row.usage.cost_usd is None


async def test_a_reply_cut_at_its_cap_says_nothing_about_tools(bench: Any) -> None:
    cut = bench.streamed(bench.sse(bench.chunk(content="Well, "), bench.chunk("length"), "[DONE]"))
    row = await check(models(bench.Provider(cut), fast=config()), "fast")
    assert row.tools is None and "before it called the tool" in row.notes[0]


async def test_a_refused_key_is_used_once_and_never_shown(bench: Any) -> None:
    words = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "authentication_error"}}
    provider = bench.Provider(httpx.Response(401, json=words))
    row = await check(models(provider, fast=config(fallback=("offline",))), "fast")
    assert row.key == "refused" and "Check the key in FAST" in (row.problem or "")
    assert SECRET not in row.model_dump_json()
    assert len(provider.requests) == 1


async def test_a_check_of_a_busy_provider_has_no_retry_and_no_fallback(bench: Any) -> None:
    provider = bench.Provider(httpx.Response(503, json={"error": {"message": "overloaded"}}))
    row = await check(models(provider, fast=config(fallback=("offline",))), "fast")
    assert "503" in (row.problem or "") and row.key == "unknown"
    assert len(provider.requests) == 1


async def test_a_check_without_a_key_sends_no_request(bench: Any) -> None:
    provider = bench.Provider(httpx.Response(500))
    row = await check(models(provider, key="", fast=config()), "fast")
    assert row.key == "missing" and "set the environment variable FAST" in (row.problem or "")
    assert provider.requests == []


async def test_a_parameter_that_was_refused_is_a_note(bench: Any) -> None:
    words = {"error": {"message": "Unsupported parameter: 'stream_options'", "param": "stream_options"}}
    provider = bench.Provider(httpx.Response(400, json=words), called(bench))
    row = await check(models(provider, fast=config()), "fast")
    assert row.problem is None and any("Asking again without" in note for note in row.notes)


async def test_local_models_are_not_asked_and_a_wrong_name_is_explained(bench: Any) -> None:
    provider = bench.Provider(httpx.Response(500))
    found: dict[str, ModelCheck] = {}

    async def tell(row: ModelCheck) -> None:
        found[row.name] = row

    await check_all(models(provider, fast=config()), ["offline", "fats", "offline"], Redactor(), tell)
    assert found["offline"].problem is None and found["offline"].key == "none" and found["offline"].notes
    assert "Did you mean fast?" in (found["fats"].problem or "")
    assert provider.requests == []


async def test_a_provider_s_words_are_redacted_before_they_are_shown(bench: Any) -> None:
    words = {"error": {"message": "no room in vault-0123456789abcdef"}}
    found: list[ModelCheck] = []

    async def tell(row: ModelCheck) -> None:
        found.append(row)

    provider = bench.Provider(httpx.Response(500, json=words))
    await check_all(models(provider, fast=config()), ["fast"], Redactor(["vault-0123456789abcdef"]), tell)
    assert "vault-0123456789abcdef" not in (found[0].problem or "") and "no room" in (found[0].problem or "")


async def test_the_window_of_a_known_model_comes_from_the_table(bench: Any) -> None:
    row = await check(models(bench.Provider(called(bench)), fast=config(model="gpt-4o")), "fast")
    assert (row.context_tokens, row.window_from) == (128_000, "table")
