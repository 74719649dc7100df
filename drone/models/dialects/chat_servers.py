"""The differences of chat completions by the provider's row; a server that has no row speaks as most do."""

from collections.abc import Mapping

from drone.models.dialects.azure import AZURE
from drone.models.dialects.deepseek import DEEPSEEK
from drone.models.dialects.differences import Differences
from drone.models.dialects.google_chat import GOOGLE, VERTEX
from drone.models.dialects.groq import GROQ
from drone.models.dialects.mistral import MISTRAL, is_of_mistral, mistral_at
from drone.models.dialects.open_weights import BEDROCK, LLAMACPP, LMSTUDIO, OLLAMA, TOGETHER, VLLM
from drone.models.dialects.openai import OPENAI
from drone.models.dialects.openrouter import OPENROUTER
from drone.models.dialects.xai import XAI
from drone.models.remote import Endpoint
from mcc.configuration.providers import OPENAI as AT_OPENAI
from mcc.configuration.providers import provider_at

CHAT_SERVERS: Mapping[str, Differences] = {
    AT_OPENAI.name: OPENAI,
    "azure": AZURE,
    "bedrock": BEDROCK,
    "deepseek": DEEPSEEK,
    "gemini": GOOGLE,
    "groq": GROQ,
    "llamacpp": LLAMACPP,
    "lmstudio": LMSTUDIO,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
    "openrouter": OPENROUTER,
    "together": TOGETHER,
    "vertex": VERTEX,
    "vllm": VLLM,
    "xai": XAI,
}

COMMON = Differences()


def differences(endpoint: Endpoint) -> Differences:
    """What differs at the server behind this endpoint. The row of OpenAI stands for every server at another address
    that speaks its form."""
    there = provider_at(endpoint.provider, endpoint.base_url)
    elsewhere = there == AT_OPENAI.name and not AT_OPENAI.is_at(endpoint.base_url)
    server = COMMON if elsewhere else CHAT_SERVERS.get(there, COMMON)
    return mistral_at(server) if server.leaks and is_of_mistral(endpoint.model) else server
