"""The library as a program meets it: models by their names, and the types of what it is given."""

import asyncio
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
CACHE = ROOT / ".mypy_cache" / "programs"
CLERK = drone.AgentDefinition(name="clerk", prompt="Answer.")

PROGRAM = '''
import asyncio
from typing import Any

import drone


def price_of(fruit: str) -> str:
    """What a fruit costs."""
    return "3"


def looked(result: Any, evidence: drone.Evidence) -> bool | str:
    return any(receipt.tool == "price_of" for receipt in evidence.receipts) or "Look it up."


async def main() -> None:
    clerk = drone.AgentDefinition(name="clerk", prompt="Answer.")
    tools: list[drone.Tool] = [price_of, drone.SubAgent(drone.Agent(clerk, model="offline"))]
    gate = drone.ReportGate("report", functions={"looked": looked})
    agent = drone.Agent(clerk.model_copy(update={"name": "lead"}), model="offline", tools=tools, gate=gate)
    none: drone.Tool | None = None
    print(len(agent.specs), none)


asyncio.run(main())
'''


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
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """A model server on this machine, at which mcc.toml has vllm and the alias `fast`."""
    with HTTPServer(("127.0.0.1", 0), Completions) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{serving.server_port}/v1"
        file = tmp_path / "mcc.toml"
        file.write_text(
            f'[models.fast]\nprovider = "vllm"\nmodel = "small:1b"\nbase_url = "{address}"\nstream = false\n'
        )
        monkeypatch.setenv("MCC_CONFIG", str(file))
        monkeypatch.setenv("VLLM_BASE_URL", address)
        yield serving
        serving.shutdown()


def test_an_agent_asks_the_alias_that_is_its_model_in_every_run(server: HTTPServer) -> None:
    agent = drone.Agent(CLERK, model="fast")
    assert [asyncio.run(agent.run("Who are you?")).text for _ in range(2)] == ["I am small:1b."] * 2
    assert agent._opened is not None and agent._opened._wire is not None
    assert agent._opened._wire._session is None, "connections stay open after the run"


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


def test_a_program_with_tools_and_a_gate_is_strictly_typed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program], cwd=ROOT, check=True, timeout=60, env={"PYTHONPATH": str(ROOT)})
    checked = subprocess.run(
        # One cache for all runs, beside that of `make check`, whose options differ.
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={CACHE}", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
