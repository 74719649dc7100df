"""The library as a program meets it: models by their names, and the types of what it is given."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

import drone
from drone.models.guards import UnknownModel
from drone.models.scripted import ScriptedModel

ROOT = Path(__file__).parents[2]
CLERK = drone.AgentDefinition(name="clerk", prompt="Answer.")


class Completions(BaseHTTPRequestHandler):
    """Answers each request with the name of the model that it asks for."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": f"I am {asked['model']}."}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Completions) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


def test_a_program_asks_an_alias_of_its_mcc_toml_and_closes_what_it_opened(server: HTTPServer, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.server_port}/v1"
    file = tmp_path / "mcc.toml"
    file.write_text(f'[models.fast]\nprovider = "vllm"\nmodel = "small:1b"\nbase_url = "{address}"\nstream = false\n')
    environ = {"PYTHONPATH": str(ROOT), "MCC_CONFIG": str(file), "VLLM_BASE_URL": address, "HOME": str(tmp_path)}
    command = [sys.executable, "-X", "dev", "-m", "tests.drone.embedding_program", "fast"]
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["I am small:1b.", "I am small:1b.", "3.0 None"], ran.stderr
    # In this mode Python, and aiohttp with it, tells of each connection that was left open.
    assert "unclosed" not in ran.stderr.lower()


@pytest.mark.parametrize(
    "name, meant",
    [
        ("openai/gpt-x", "openai/gpt-x"),
        ("openai:gpt-x", "openai/gpt-x"),
        ("ollama:llama3:8b", "ollama/llama3:8b"),
        ("ollama/llama3:8b", "ollama/llama3:8b"),
    ],
)
def test_a_provider_stands_before_a_slash_or_a_colon(name: str, meant: str) -> None:
    assert drone.Agent(CLERK, model=name).model.name == meant
    assert drone.Agent(CLERK.model_copy(update={"model": name}), model=name).model.name == meant


@pytest.mark.parametrize("name", ["llama3:8b", "opnai/gpt-x", "openai:", "openai/", "", "fats"])
def test_a_name_of_no_model_is_refused_at_construction(name: str) -> None:
    with pytest.raises(UnknownModel, match="There is no model"):
        drone.Agent(CLERK, model=name)


def test_a_definition_that_names_another_model_than_the_one_given_is_refused() -> None:
    with pytest.raises(ValueError, match="clerk names the model openai/b, and is given openai/a"):
        drone.Agent(CLERK.model_copy(update={"model": "openai/b"}), model="openai/a")


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_agent_without_a_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(ValueError, match="clerk has no prompt"):
        drone.Agent(CLERK.model_copy(update={"prompt": prompt}), model=ScriptedModel([]))
