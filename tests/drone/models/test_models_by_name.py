"""The registry of models: what a name means with a given configuration and keys."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from drone.agent.ports.model import ModelError, UnknownPrice
from drone.models.guards import UnknownModel
from drone.models.registry import Models
from drone.settings import ModelConfig, Settings
from mcc.contracts.blocks import ToolCall
from mcc.transcript.messages import AssistantMessage, ToolResult, ToolResults, ToolSpec, UserMessage
from tests.drone.models.loopback import Loopback

NOBODY = "http://127.0.0.1:9"
ROOT = Path(__file__).parents[3]


class SettingsWithKeys(Settings):
    """Settings that know only the given keys."""

    def key(self, name: str) -> str | None:
        given = self.keys.get(name)
        return given.get_secret_value() if given else None


def settings(*, keys: dict[str, str] | None = None, **more: Any) -> Settings:
    secrets = {name: SecretStr(key) for name, key in (keys or {}).items()}
    known = {"openai_base_url": "https://openai.test/v1", "anthropic_base_url": "https://anthropic.test"}
    return SettingsWithKeys(**{**known, "ollama_base_url": NOBODY, "keys": secrets, **more})


def config(**more: Any) -> ModelConfig:
    return ModelConfig(**{"provider": "openai", "model": "m", **more})


def problem(models: Models, name: str) -> str | None:
    return next(one.problem for one in models.capabilities() if one.name == name)


async def asked(models: Models, name: str, bench: Any) -> Any:
    return await models.get(name).ask(bench.asking(), bench.listener)


def whole(text: str) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


async def test_an_alias_asks_its_own_server_with_its_own_key(bench: Any) -> None:
    table = {"fast": config(base_url="https://fast.test/v1", api_key_env="FAST", max_output_tokens=9)}
    provider = bench.Provider(whole("Hi"))
    models = Models(settings(keys={"FAST": "fast-key\n"}, models=table), wire=Loopback(provider))
    assert (await asked(models, "fast", bench)).text == "Hi"
    request = provider.requests[0]
    assert (request.url.host, request.headers["authorization"]) == ("fast.test", "Bearer fast-key")
    assert (provider.body["model"], provider.body["max_tokens"]) == ("m", 9)
    assert (models.get("fast").name, models.get("fast")) == ("openai/m", models.get("fast"))


async def test_a_provider_s_own_key_never_goes_to_another_address(bench: Any) -> None:
    provider = bench.Provider(whole("Hi"))
    table = {"local": config(base_url="http://127.0.0.1:8000/v1")}
    models = Models(settings(keys={"OPENAI_API_KEY": "sk-openai"}, models=table), wire=Loopback(provider))
    await asked(models, "local", bench)
    assert "sk-openai" not in str(provider.requests[0].headers)


@pytest.mark.parametrize(
    ("keys", "table", "advice"),
    [
        ({}, {}, 'No key was sent. Name the variable that holds one in mcc.toml: api_key_env = "VARIABLE".'),
        (
            {"OPENAI_API_KEY": "k" * 20},
            {},
            "No key was sent: that in OPENAI_API_KEY goes to its provider's own address",
        ),
        ({"FAST": "k" * 20}, {"api_key_env": "FAST"}, "Check the key in FAST."),
    ],
    ids=["no key", "a key for another address", "a wrong key"],
)
async def test_a_server_that_wants_a_key_says_which_was_sent_and_where_to_name_one(
    bench: Any, keys: dict[str, str], table: dict[str, Any], advice: str
) -> None:
    provider = bench.Provider(httpx.Response(401, json={"error": {"message": "who are you"}}))
    fast = config(base_url="https://fast.test/v1", **table)
    error = await bench.refused(Models(settings(keys=keys, models={"fast": fast}), wire=Loopback(provider)).get("fast"))
    assert advice in str(error)


async def test_a_provider_without_a_common_address_wants_one_and_finds_its_own_key(bench: Any) -> None:
    provider = bench.Provider(whole("Hi"))
    address = "https://mine.openai.azure.com/openai/deployments/d"
    table = {
        "new": config(provider="azure", base_url=f"{address}?api-version=2024-10-21"),
        "bare": config(provider="azure"),
        "query": config(provider="azure", base_url=f"{address}?key=1"),
    }
    models = Models(settings(keys={"AZURE_OPENAI_API_KEY": "az"}, models=table), wire=Loopback(provider))
    assert (await asked(models, "new", bench)).text == "Hi"
    assert str(provider.requests[0].url) == f"{address}/chat/completions?api-version=2024-10-21"
    assert provider.requests[0].headers["api-key"] == "az"
    assert "base_url" in (problem(models, "bare") or "") and "?" in (problem(models, "query") or "")


async def test_a_provider_and_its_model_are_a_name(bench: Any) -> None:
    provider = bench.Provider(whole("Hi"), httpx.Response(200, json={"content": [], "stop_reason": "end_turn"}))
    keys = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant"}
    models = Models(settings(keys=keys), wire=Loopback(provider))
    await asked(models, "openai/gpt/x", bench)
    await asked(models, "anthropic/claude", bench)
    first, second = provider.requests
    assert (str(first.url), json.loads(first.content)["model"]) == ("https://openai.test/v1/chat/completions", "gpt/x")
    assert (str(second.url), second.headers["x-api-key"]) == ("https://anthropic.test/v1/messages", "sk-ant")


async def test_the_next_model_of_the_table_is_asked_when_one_fails(bench: Any) -> None:
    table = {"fast": config(base_url="https://fast.test/v1", fallback=("openai/other", "offline"))}
    provider = bench.Provider(httpx.Response(400, json={"error": "No"}), whole("Hi"))
    models = Models(settings(keys={"OPENAI_API_KEY": "k" * 20}, models=table), wire=Loopback(provider))
    reply = await asked(models, "fast", bench)
    assert (reply.text, reply.model) == ("Hi", "openai/other")
    assert bench.listener.fallbacks == [("openai/m", "openai/other", "fast (openai/m) answered 400: No.")]


async def test_configured_prices_make_the_cost(bench: Any) -> None:
    body = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 10**6, "completion_tokens": 10**6}}
    table = {"fast": config(base_url="https://fast.test/v1", price={"input": 0.2, "output": 0.8})}
    models = Models(settings(models=table), wire=Loopback(bench.Provider(httpx.Response(200, json=body))))
    assert (await asked(models, "fast", bench)).usage.cost_usd == pytest.approx(1.0)


async def test_a_model_that_costs_something_is_not_asked_where_only_free_ones_may_be(bench: Any) -> None:
    table = {
        "paid": config(base_url="https://a.test/v1", price={"input": 0, "output": 1}),
        "free": config(base_url="https://b.test/v1", price={"input": 0, "output": 0}),
    }
    provider = bench.Provider(whole("Hi"), whole("Hi"))
    models = Models(settings(models=table), wire=Loopback(provider))
    only_free = replace(bench.asking(), priced_only=True, free_only=True)
    with pytest.raises(UnknownPrice, match="may spend none"):
        await models.get("paid").ask(only_free, bench.listener)
    assert provider.requests == []
    assert (await models.get("free").ask(only_free, bench.listener)).text == "Hi"
    assert (await asked(models, "paid", bench)).text == "Hi"


async def test_a_model_of_unknown_price_is_not_asked_where_only_priced_ones_may_be(bench: Any) -> None:
    unknown, priced = (
        config(base_url="https://a.test/v1"),
        config(base_url="https://b.test/v1", price={"input": 1, "output": 1}),
    )
    table = {"new": unknown, "bold": config(base_url="https://a.test/v1", fallback=("priced",)), "priced": priced}
    provider = bench.Provider(whole("Hi"), whole("Hi"), whole("Hi"))
    models = Models(settings(models=table), wire=Loopback(provider))
    only_priced = replace(bench.asking(), priced_only=True)
    with pytest.raises(UnknownPrice, match=r"price = \{input = .* in \[models.new\]"):
        await models.get("new").ask(only_priced, bench.listener)
    assert provider.requests == []
    assert (await models.get("bold").ask(only_priced, bench.listener)).text == "Hi"
    assert (await asked(models, "new", bench)).text == "Hi"
    assert [request.url.host for request in provider.requests] == ["b.test", "a.test"]


@pytest.mark.parametrize(
    ("name", "near"),
    [("fst", "Did you mean fast?"), ("ofline", "Did you mean offline?"), ("openal/x", "Did you mean openai/x?")],
)
def test_an_unknown_name_is_answered_with_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(UnknownModel, match=f"There is no model '{name}'") as caught:
        Models(settings(models={"fast": config()})).get(name)
    assert near in str(caught.value)


@pytest.mark.parametrize("name", ["", "/", "openai/", "scripted//etc/passwd", "nobody/x"])
def test_names_that_lead_nowhere_are_unknown(name: str) -> None:
    with pytest.raises(UnknownModel):
        Models(settings()).get(name)


async def test_a_missing_key_is_a_problem_that_names_its_variable(bench: Any) -> None:
    models = Models(settings(models={"fast": config(api_key_env="FAST"), "own": config()}))
    assert "set the environment variable FAST" in str(problem(models, "fast"))
    assert "set the environment variable OPENAI_API_KEY" in str(problem(models, "own"))
    error = await bench.refused(models.get("fast"))
    assert "FAST" in str(error) and not error.retryable


def test_http_to_another_machine_is_a_problem() -> None:
    models = Models(settings(models={"far": config(base_url="http://models.test/v1")}))
    assert "use https" in str(problem(models, "far")) and "allow_http = true" in str(problem(models, "far"))


async def test_http_to_another_machine_may_be_allowed_for_one_model(bench: Any) -> None:
    provider = bench.Provider(whole("Hi"))
    table = {"far": config(base_url="http://models.test/v1", allow_http=True)}
    assert (await asked(Models(settings(models=table), wire=Loopback(provider)), "far", bench)).text == "Hi"
    assert provider.requests[0].url.scheme == "http"


async def test_settings_of_a_model_apply_where_the_ask_has_none(bench: Any) -> None:
    provider = bench.Provider(whole("Hi"))
    more = {"extra_body": {"seed": 7}, "extra_headers": {"X-Team": "blue"}, "thinking": "low", "temperature": 0.5}
    table = {"far": config(base_url="https://models.test/v1", model="gpt-5.2", **more)}
    models = Models(settings(models=table), wire=Loopback(provider))
    await asked(models, "far", bench)
    body = provider.body
    assert (body["reasoning_effort"], body["temperature"], body["seed"]) == ("low", 0.5, 7)
    assert provider.requests[0].headers["x-team"] == "blue"
    await models.get("far").ask(bench.asking(thinking="high", temperature=0.0), bench.listener)
    assert (provider.body["reasoning_effort"], provider.body["temperature"]) == ("high", 0.0)


def test_a_level_of_thinking_that_a_model_does_not_take_is_a_problem_of_its_table() -> None:
    table = {"far": config(base_url="https://models.test/v1", model="o3", thinking="max")}
    said = problem(Models(settings(models=table)), "far")
    assert said == "The model far cannot be used: it does not take thinking max; it takes low, medium, high."


async def test_a_call_may_have_a_longest_time_whether_it_streams_or_not(bench: Any) -> None:
    held = asyncio.Event()

    async def forever() -> AsyncIterator[bytes]:
        await held.wait()
        yield b""

    for stream in (True, False):
        table = {"far": config(base_url="https://models.test/v1", call_seconds=0.01, retry_seconds=0, stream=stream)}
        provider = bench.Provider(httpx.Response(200, headers={"content-type": "text/event-stream"}, content=forever()))
        with pytest.raises(ModelError, match=r"did not finish within 0\.01 seconds"):
            await asked(Models(settings(models=table), wire=Loopback(provider)), "far", bench)


@pytest.mark.parametrize("key", ["schlüssel-0123456789", "a\nb"])
def test_a_key_that_no_header_can_carry_is_a_problem(key: str) -> None:
    models = Models(settings(keys={"FAST": key}, models={"fast": config(api_key_env="FAST")}))
    told = str(problem(models, "fast"))
    assert "characters" in told and key not in told


def test_a_fallback_that_does_not_exist_is_a_problem_of_its_alias() -> None:
    models = Models(settings(keys={"OPENAI_API_KEY": "k" * 20}, models={"fast": config(fallback=("slow",))}))
    assert "'slow'" in str(problem(models, "fast"))


def test_every_configured_model_is_listed_and_the_offline_one() -> None:
    models = Models(settings(keys={"OPENAI_API_KEY": "k" * 20}, models={"fast": config()}))
    told = {one.name: one for one in models.capabilities()}
    assert set(told) == {"openai/gpt-6.1-terra", "fast", "offline"}
    assert all(one.problem is None for one in told.values())
    assert "k" * 20 not in str(told)


@pytest.mark.parametrize(
    ("keys", "begins"),
    [
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}, "anthropic/"),
        ({"OPENAI_API_KEY": "b", "OPENROUTER_API_KEY": "c"}, "openai/"),
        ({"OPENROUTER_API_KEY": "c"}, "openrouter/"),
        ({}, "offline"),
    ],
)
def test_the_default_is_the_first_provider_with_a_key(keys: dict[str, str], begins: str) -> None:
    models = Models(settings(keys=keys))
    assert models.default_name.startswith(begins)
    assert models.default.name.startswith(begins)


def test_the_configured_default_wins() -> None:
    models = Models(settings(keys={"ANTHROPIC_API_KEY": "a"}, models={"fast": config()}, defaults={"model": "fast"}))
    assert models.default_name == "fast"


def test_a_script_on_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"rules": [{"match": "", "replies": [{"text": "Hi"}]}]}')
    table = {
        "play": ModelConfig(provider="scripted", model=str(path)),
        "lost": ModelConfig(provider="scripted", model=str(tmp_path / "no.json")),
    }
    models = Models(settings(models=table))
    assert (models.get("play").name, problem(models, "play")) == ("scripted/play", None)
    assert "cannot be read" in str(problem(models, "lost"))


@pytest.fixture(scope="module")
def fake_server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.fake_llm", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "plain"])
@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_a_conversation_with_a_server_runs_to_its_end(
    bench: Any, fake_server: str, form: str, stream: bool
) -> None:
    model = ModelConfig(provider=form, base_url=f"{fake_server}/L1/T7/v1", model="fake", stream=stream)
    models = Models(settings(models={"fake": model}))
    tools = (ToolSpec("lookup", "", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}),)
    messages: list[Any] = [UserMessage("Find the facts. [[sub r=3]]")]
    texts = []
    try:
        for number in range(4):
            reply = await models.get("fake").ask(bench.asking(*messages, tools=tools), bench.listener)
            texts.append(reply.text)
            if wanted := reply.tool_calls:
                assert wanted[0].arguments == {"q": f"fact number {number}"}
                call = ToolCall(call_id=f"call-{number}", name=wanted[0].name, arguments=wanted[0].arguments)
                results = ToolResults((ToolResult(call.call_id, call.name, "A fact.", False),))
                messages += [AssistantMessage.of(reply.text, tool_calls=(call,)), results]
    finally:
        await models.aclose()
    assert texts == ["", "", "", "Done." + " token" * 6]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (500, 7)
    assert bench.listener.heard() == texts[-1]


def test_an_ollama_on_this_machine_is_the_default_with_its_newest_model_that_chats() -> None:
    tags = json.dumps({"models": [{"name": "nomic-embed-text"}, {"name": "qwen3:8b"}, {"name": "other"}]})
    program = (
        "import http.server as h, sys\n"
        "class A(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        assert self.path == '/api/tags'\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())\n"
        "    def log_message(self, *a): pass\n"
        "s = h.HTTPServer(('127.0.0.1', 0), A); print(s.server_port, flush=True); s.handle_request()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, tags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        models = Models(settings(ollama_base_url=f"http://127.0.0.1:{process.stdout.readline().strip()}"))
        try:
            assert models.default_name == "ollama/qwen3:8b"
        finally:
            process.kill()
    assert models.default.name == "ollama/qwen3:8b"
