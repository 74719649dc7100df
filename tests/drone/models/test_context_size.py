"""The context size of a model: from configuration, the table of models, its own server, or a refusal."""

import asyncio
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import context_tokens
from drone.models.overflow import window_in
from drone.models.registry import Models
from drone.models.scripted import ScriptedModel
from drone.settings import ModelConfig, Settings
from tests.drone.models.loopback import Loopback


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("This model's maximum context length is 32768 tokens. However, you requested 40000 tokens", 32_768),
        ("This endpoint's maximum context length is 131,072 tokens.", 131_072),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length", 200_000),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 200000 tokens.", 131_072),
        ("However, the model is loaded with context length of only 4096 tokens, which is not enough.", 4_096),
        ("Please reduce the length of the messages or completion.", None),
        ("maximum context length is 12 tokens", None),
    ],
)
def test_a_refusal_tells_the_size_of_the_context(words: str, tokens: int | None) -> None:
    assert window_in(words) == tokens


def settings(**config: Any) -> Settings:
    model = ModelConfig(provider="anthropic", model="claude-haiku-4-5", **config)
    return Settings(models={"cheap": model}, keys={"ANTHROPIC_API_KEY": "k" * 20, "OPENAI_API_KEY": "k" * 20})


def test_configuration_speaks_before_the_table_of_models() -> None:
    assert context_tokens(Models(settings()).get("cheap")) == 200_000
    assert context_tokens(Models(settings(context_tokens=50_000)).get("cheap")) == 50_000


def test_a_fallback_is_as_large_as_the_model_that_is_asked_next() -> None:
    assert context_tokens(Models(settings(fallback=("openai/gpt-6.1-sol",))).get("cheap")) == 200_000


def test_the_context_size_is_unknown_if_nothing_states_it() -> None:
    assert context_tokens(ScriptedModel([])) is None
    assert context_tokens(Models(settings()).get("openai/own-model-of-somebody")) is None


ANSWER = {"choices": [{"message": {"content": "It is 42."}, "finish_reason": "stop"}]}
LISTED = {"object": "list", "data": [{"id": "other", "max_model_len": 512}, {"id": "qwen3", "max_model_len": 32_768}]}
LOADED = {"data": [{"id": "qwen3", "state": "loaded", "max_context_length": 40_960, "loaded_context_length": 8_192}]}
NOT_LOADED = {"data": [{"id": "qwen3", "state": "not-loaded", "max_context_length": 40_960}]}
PROPS = {"default_generation_settings": {"n_ctx": 16_384, "params": {}}, "total_slots": 1}
RUNNING = {"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 4_096}]}
SHOWN = {"parameters": "temperature 0.6\nnum_ctx                        24576", "model_info": {"x.context_length": 1}}


class Server(httpx.AsyncBaseTransport):
    """A self-hosted server: answers questions about itself by path, and gives the same reply to every ask."""

    def __init__(self, **told: Any) -> None:
        self.told = {path.replace("__", "/"): answer for path, answer in told.items()}
        self.asked: list[str] = []
        self.authorized: set[str | None] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.authorized.add(request.headers.get("authorization"))
        if request.url.path.endswith("/chat/completions"):
            return httpx.Response(200, json=ANSWER)
        self.asked.append(request.url.raw_path.decode())
        told = self.told.get(request.url.path.lstrip("/"))
        if callable(told):
            told = await told()
        return httpx.Response(404) if told is None else httpx.Response(200, json=told)


def local(server: Server, provider: str, **config: Any) -> Models:
    config = {"model": "qwen3", **config}
    model = ModelConfig(provider=provider, api_key_env="LOCAL_KEY", stream=False, **config)
    return Models(Settings(models={"local": model}, keys={"LOCAL_KEY": "sk-local-0123456789"}), wire=Loopback(server))


@pytest.mark.parametrize(
    ("provider", "told", "asked", "tokens"),
    [
        ("vllm", {"v1__models": LISTED}, ["/v1/models"], 32_768),
        ("vllm", {"v1__models": {"data": [{"id": "/models/weights", "max_model_len": 2_048}]}}, ["/v1/models"], 2_048),
        ("llamacpp", {"props": PROPS}, ["/props?model=qwen3&autoload=false"], 16_384),
        ("lmstudio", {"api__v0__models": LOADED}, ["/api/v0/models"], 8_192),
        ("lmstudio", {"api__v0__models": NOT_LOADED}, ["/api/v0/models"], None),
        ("ollama", {"api__ps": RUNNING}, ["/api/ps"], 4_096),
        ("ollama", {"api__ps": {"models": []}, "api__show": SHOWN}, ["/api/ps", "/api/show"], 24_576),
        ("vllm", {"v1__models": {"data": [{"id": "qwen3", "max_model_len": True}]}}, ["/v1/models"], None),
        ("vllm", {"v1__models": {"data": [{"id": "qwen3", "max_model_len": 3}]}}, ["/v1/models"], None),
        ("vllm", {"v1__models": ["nothing", "of the kind"]}, ["/v1/models"], None),
        ("llamacpp", {"props": "n_ctx"}, ["/props?model=qwen3&autoload=false"], None),
        ("vllm", {}, ["/v1/models"], None),
    ],
)
async def test_a_server_of_open_weights_says_how_much_it_takes_in(
    bench: Any, provider: str, told: dict[str, Any], asked: list[str], tokens: int | None
) -> None:
    server = Server(**told)
    model = local(server, provider).get("local")
    assert context_tokens(model) is None
    assert (await model.ask(bench.asking(), bench.listener)).context_tokens == tokens
    assert context_tokens(model) == tokens
    assert server.asked == asked
    assert server.authorized == {"Bearer sk-local-0123456789"}


@pytest.mark.parametrize(("told", "times"), [({"v1__models": LISTED}, 1), ({}, 3)])
async def test_a_server_is_asked_until_it_answers_and_three_times_at_most(
    bench: Any, told: dict[str, Any], times: int
) -> None:
    server = Server(**told)
    model = local(server, "vllm").get("local")
    for _ in range(5):
        await model.ask(bench.asking(), bench.listener)
    assert len(server.asked) == times


async def test_calls_side_by_side_ask_it_once(bench: Any) -> None:
    server = Server(v1__models=LISTED)
    model = local(server, "vllm").get("local")
    await asyncio.gather(*(model.ask(bench.asking(), bench.listener) for _ in range(5)))
    assert server.asked == ["/v1/models"]


async def test_a_server_that_is_deaf_to_the_question_holds_up_no_reply(bench: Any) -> None:
    begun = asyncio.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    model = local(Server(v1__models=never), "vllm").get("local")
    reply = await model.ask(bench.asking(), bench.listener)
    assert (reply.text, reply.context_tokens, begun.is_set()) == ("It is 42.", None, True)


async def test_the_smaller_size_of_table_and_server_counts(bench: Any) -> None:
    server = Server(v1__models={"data": [{"id": "openai/gpt-oss-120b", "max_model_len": 16_384}]})
    model = local(server, "vllm", model="openai/gpt-oss-120b").get("local")
    before = context_tokens(model)
    assert before is None or before > 16_384
    assert (await model.ask(bench.asking(), bench.listener)).context_tokens == 16_384


@pytest.mark.parametrize(
    ("provider", "config", "asked"),
    [
        ("vllm", {"context_tokens": 9_000}, []),
        ("openai", {"base_url": "http://127.0.0.1:8000/v1"}, ["/v1/models"]),
        ("openai", {"base_url": "http://127.0.0.1:8000/v1", "model": "gpt-5"}, []),
        ("openai", {"send_key_to_other_host": True, "api": "chat"}, []),
        ("groq", {}, []),
    ],
)
async def test_no_server_is_asked_for_a_configured_or_known_size(
    bench: Any, provider: str, config: dict[str, Any], asked: list[str]
) -> None:
    server = Server(v1__models={"data": [{"id": "qwen3", "context_length": 65_536}]})
    reply = await local(server, provider, **config).get("local").ask(bench.asking(), bench.listener)
    assert (reply.text, server.asked) == ("It is 42.", asked)
    if asked:
        assert reply.context_tokens == 65_536
