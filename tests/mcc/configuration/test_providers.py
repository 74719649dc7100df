"""The table of providers is the only place in the product that names them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcc.configuration.providers import OLLAMA, OPENAI, PROVIDERS, any_key, form_at, provider, provider_at

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "mcc" / "configuration" / "providers.py"
IMPORTED = {ROOT / "mcc" / "definitions" / "foreign.py", ROOT / "mcc" / "cli" / "agents_import.py"}
"""These modules know the agent files of other programs, one of which has a provider's name."""
PARSERS = {ROOT / "drone" / "agent" / "state" / "leaks.py", ROOT / "drone" / "models" / "window_questions.py"}
"""These modules know the tool parsers of servers, and what servers answer about themselves, by the servers' names."""
NAMES = {one.name for one in PROVIDERS}
PARTS = {
    part
    for one in PROVIDERS
    for part in (one.key_name, one.address_setting, urlsplit(one.base_url).netloc, f"{one.name}/", one.first_model)
    if part
}


def said(path: Path) -> Iterator[str]:
    """The string constants of a module, without its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.parametrize("package", ["mcc", "drone"])
def test_no_module_but_dialects_names_a_provider_so_that_a_new_one_is_one_row(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {text[:60]}"
        for path in (ROOT / package).rglob("*.py")
        if path not in {TABLE, *IMPORTED, *PARSERS} and path.parent.name != "dialects"
        for text in said(path)
        if text in NAMES or any(part in text or part.upper() in text for part in PARTS)
    }
    assert not found


def test_a_provider_moves_to_the_address_that_is_set_for_it() -> None:
    for one in PROVIDERS:
        assert provider(one.name) == one and one.at(f"{one.base_url}/") == one
    assert OLLAMA.at("http://box:1/").base_url == OLLAMA.at("http://box:1/v1").base_url == "http://box:1/v1"


def test_whoever_answers_at_an_address_is_known_by_its_host() -> None:
    assert provider_at("openai", "https://api.mistral.ai/v1") == "mistral"
    assert provider_at("openai", "https://europe-west4-aiplatform.googleapis.com/v1/x") == "vertex"
    assert provider_at("openai", "https://gateway.example/v1") == "openai"
    assert provider_at("vllm", OLLAMA.base_url) == "vllm"


def test_keys_are_listed_for_a_sentence() -> None:
    assert (any_key(["A", "B", "C"]), any_key(["A"])) == ("A, B or C", "A")


@pytest.mark.parametrize(
    ("address", "form"),
    [
        (OPENAI.base_url, "responses"),
        ("https://mine.openai.azure.com/openai/v1/", "responses"),
        ("https://mine.services.ai.azure.com/openai/v1", "responses"),
        ("https://mine.openai.azure.com/openai/deployments/x", "chat"),
        ("http://127.0.0.1:8000/v1", "chat"),
        ("https://evilopenai.azure.com/openai/v1", "chat"),
        ("https://openrouter.ai/api/v1", "chat"),
    ],
)
def test_responses_are_spoken_at_openai_and_in_the_new_form_of_azure_and_nowhere_else(address: str, form: str) -> None:
    assert form_at(OPENAI.name, address) == form
