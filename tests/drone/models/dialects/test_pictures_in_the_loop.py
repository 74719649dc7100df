"""Agents that read a picture: each wire format carries it in its own way, also after another drone has taken over."""

import base64
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.models.dialects.forms import formats
from drone.models.prices import KnownModel
from drone.models.registry import Models
from drone.models.remote import ModelEndpoint, Remote
from drone.models.retry import Fallback
from drone.sandbox.places.paths import Workspace
from drone.settings import ModelConfig, Settings
from drone.tools.files.reading import read_file
from drone.tools.frame.tool import FunctionTools
from mcc.configuration.providers import Form
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry import Entry
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ToolFinished
from mcc.contracts.record import NoteStep, RecordStatus
from tests.drone.models.conftest import Provider
from tests.drone.models.dialects import responding
from tests.drone.models.loopback import Loopback

SEEING = KnownModel(images=True)
ARGUMENTS = {"path": "logo.png"}


def png(width: int = 3, height: int = 2) -> bytes:
    """A picture as it is shown: read from a file, it is the same again."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(file, "PNG")
    return file.getvalue()


DATA = base64.b64encode(png()).decode()
URL = f"data:image/png;base64,{DATA}"


def chat(text: str) -> Mapping[str, Any]:
    function = {"name": "read_file", "arguments": json.dumps(ARGUMENTS)}
    calls = [] if text else [{"id": "call_1", "type": "function", "function": function}]
    told = {"role": "assistant", "content": text or None, "tool_calls": calls}
    return {"choices": [{"index": 0, "message": told, "finish_reason": "stop" if text else "tool_calls"}]}


def anthropic(text: str) -> Mapping[str, Any]:
    called = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": ARGUMENTS}
    content = [{"type": "text", "text": text} if text else called]
    usage = {"input_tokens": 9, "output_tokens": 1}
    stop = "end_turn" if text else "tool_use"
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage}


def gemini(text: str) -> Mapping[str, Any]:
    part = {"text": text} if text else {"functionCall": {"name": "read_file", "args": ARGUMENTS}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


def responses(text: str) -> Mapping[str, Any]:
    return responding.response([responding.message(1, text) if text else responding.call(1, "read_file", ARGUMENTS)])


ANSWERS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "chat": chat,
    "anthropic": anthropic,
    "gemini": gemini,
    "responses": responses,
}


class Seer:
    """An agent with `read_file` whose model speaks this wire format: it reads the picture, then answers."""

    def __init__(self, root: Path, form: Form, known: KnownModel = SEEING, model: str = "m", left: Any = None) -> None:
        (root / "logo.png").write_bytes(png())
        said = ANSWERS[form]
        answers = ([] if left else [httpx.Response(200, json=said(""))]) + [httpx.Response(200, json=said("A logo."))]
        self.server = Provider(*answers)
        self.model = self.asked_by(self.server, form, known, model)
        self.journal = left or MemoryJournal(fresh_id())
        self._tools = FunctionTools([read_file], workspace=Workspace(root))

    @staticmethod
    def asked_by(server: Provider, form: Form, known: KnownModel, model: str) -> Remote:
        endpoint = ModelEndpoint(
            f"x/{model}", model, "https://models.test/v1", key="sk-0123456789", stream=False, known=known
        )
        return Remote(endpoint, formats[form](endpoint), Loopback(server))

    async def run(self, model: Any = None) -> Any:
        told = AgentDefinition(name="seer", prompt="You look at pictures.")
        agent = AgentRuntime(told, model=model or self.model, tools=self._tools)
        tree = Tree.of(list(self.journal.entries))
        report = await agent.run("What is on logo.png?", agent.turn(self.journal, tree))
        assert (report.status, report.text) == (RecordStatus.COMPLETED, "A logo.")
        return self.server.body

    @property
    def finished(self) -> ToolFinished:
        [done] = [entry.data for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]
        return done

    def notes(self) -> list[str]:
        record = self.journal.fold.record()
        assert record is not None
        return [step.message for step in record.steps if isinstance(step, NoteStep) and step.name == "not_sent"]


def last_of_chat(body: Any) -> Any:
    *_, tool, user = body["messages"]
    assert tool["role"] == "tool" and "3 x 2 pixels" in tool["content"]
    assert user["role"] == "user"
    return user["content"][1:]


def result_of_anthropic(body: Any) -> Any:
    [result] = body["messages"][-1]["content"]
    assert result["type"] == "tool_result" and "3 x 2 pixels" in result["content"][0]["text"]
    return result["content"][1:]


def output_of_responses(body: Any) -> Any:
    item = body["input"][-1]
    assert item["type"] == "function_call_output" and "3 x 2 pixels" in item["output"][0]["text"]
    return item["output"][1:]


def parts_of_gemini(body: Any) -> Any:
    response, *beside = body["contents"][-1]["parts"]
    assert "3 x 2 pixels" in response["functionResponse"]["response"]["output"]
    return [*response["functionResponse"].get("parts", ()), *beside]


SHOWN = {
    "chat": (last_of_chat, [{"type": "image_url", "image_url": {"url": URL}}]),
    "anthropic": (
        result_of_anthropic,
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}],
    ),
    "responses": (output_of_responses, [{"type": "input_image", "image_url": URL}]),
    "gemini": (parts_of_gemini, [{"inlineData": {"mimeType": "image/png", "data": DATA}}]),
}


@pytest.mark.parametrize("form", SHOWN)
async def test_a_picture_arrives_in_the_form_of_its_provider(tmp_path: Path, form: Form) -> None:
    seer = Seer(tmp_path, form)
    where, expected = SHOWN[form]
    body = await seer.run()
    found = where(body)
    if form == "anthropic":
        found = [{key: value for key, value in part.items() if key != "cache_control"} for part in found]
    assert found == expected
    [image] = seer.finished.images
    assert (image.media_type, image.name, image.width, image.height) == ("image/png", "logo.png", 3, 2)
    assert await seer.journal.kept(image.artifact) == DATA
    assert seer.journal.fold.has_artifact(image.artifact)
    assert DATA not in seer.finished.model_dump_json() and not seer.notes()


async def test_gemini_takes_it_within_the_response_since_generation_3(tmp_path: Path) -> None:
    older = (await Seer(tmp_path, "gemini", model="gemini-2.5-pro").run())["contents"][-1]["parts"]
    assert ["functionResponse" in part for part in older] == [True, False]
    [newer] = (await Seer(tmp_path, "gemini", model="gemini-3.1-pro").run())["contents"][-1]["parts"]
    assert newer["functionResponse"]["parts"][0]["inlineData"]["data"] == DATA


@pytest.mark.parametrize("form", SHOWN)
async def test_a_drone_that_goes_on_sends_the_same_bytes(tmp_path: Path, form: Form) -> None:
    first = Seer(tmp_path, form)
    asked = await first.run()
    entries = [Entry.model_validate_json(entry.model_dump_json()) for entry in first.journal.entries]
    until = next(place for place, entry in enumerate(entries) if entry.kind == "tool.finished") + 1
    left = MemoryJournal(first.journal.order_id, entries=entries[:until])
    left.texts.update(first.journal.texts)
    (tmp_path / "logo.png").write_bytes(b"another file by now")
    assert await Seer(tmp_path, form, left=left).run() == asked


@pytest.mark.parametrize("form", SHOWN)
async def test_a_model_without_pictures_gets_a_note_and_people_are_told(tmp_path: Path, form: Form) -> None:
    seer = Seer(tmp_path, form, known=KnownModel())
    body = json.dumps(await seer.run())
    assert DATA not in body and "[picture logo.png not shown: x/m takes no pictures" in body
    assert seer.notes() == ["x/m is not shown the pictures of this conversation."]


@pytest.mark.parametrize("images", [True, False])
async def test_an_alias_says_whether_its_model_takes_pictures(tmp_path: Path, images: bool) -> None:
    seer = Seer(tmp_path, "chat")
    table = ModelConfig(provider="openai", model="m", base_url="https://own.test/v1", images=images, stream=False)
    body = json.dumps(await seer.run(Models(Settings(models={"own": table}), wire=Loopback(seer.server)).get("own")))
    assert (DATA in body) == images


async def test_a_fallback_that_takes_none_goes_on_without(tmp_path: Path) -> None:
    seer = Seer(tmp_path, "anthropic")
    seer.server.answers[1:] = [httpx.Response(404, json={"error": {"message": "no such model"}})]
    blind = Provider(httpx.Response(200, json=chat("A logo.")))
    second = Seer.asked_by(blind, "chat", KnownModel(images=False), "blind")
    await seer.run(Fallback([seer.model, second]))
    assert DATA in json.dumps(seer.server.body) and DATA not in json.dumps(blind.body)
    assert any("x/blind is not shown the pictures" in note for note in seer.notes())


def hidden_by(journal: MemoryJournal) -> list[TranscriptCompacted]:
    facts = (entry.data for entry in journal.entries if isinstance(entry.data, TranscriptCompacted))
    return [fact for fact in facts if fact.stage == "images"]


REFUSALS = {
    "for the picture": (400, "messages.2: Could not process image"),
    "for the bytes of one": (400, "messages.2.content.0.source.base64: invalid"),
    "without saying for what": (400, "Provider returned error"),
    "by a gateway without a server that sees": (404, "No endpoints found that support image input"),
    "by a server without eyes": (500, "image input is not supported - hint: you may need to provide the mmproj"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("form", SHOWN)
async def test_a_request_that_is_refused_for_a_picture_does_not_end_the_order(
    tmp_path: Path, form: Form, refusal: str
) -> None:
    seer = Seer(tmp_path, form)
    status, words = REFUSALS[refusal]
    seer.server.answers.insert(1, httpx.Response(status, json={"error": {"message": words}}))
    body = json.dumps(await seer.run())
    assert "[picture logo.png not shown: a provider refused it]" in body and DATA not in body
    [fact] = hidden_by(seer.journal)
    assert fact.reason == "refused" and fact.pictures == (seer.finished.images[0].artifact,)
    assert words in fact.message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Your credit balance is too low"),
        (400, "tools.0.input_schema: invalid"),
        (404, "The model m does not exist"),
        (403, "No access to images"),
    ],
)
async def test_a_request_that_is_refused_for_something_else_hides_no_picture(
    tmp_path: Path, status: int, words: str
) -> None:
    seer = Seer(tmp_path, "anthropic")
    seer.server.answers[1:] = [httpx.Response(status, json={"error": {"message": words}})] * 2
    with pytest.raises(AssertionError):
        await seer.run()
    assert not hidden_by(seer.journal)


async def test_a_picture_whose_bytes_are_gone_becomes_a_note(tmp_path: Path) -> None:
    first = Seer(tmp_path, "chat")
    await first.run()
    entries = list(first.journal.entries)
    until = next(place for place, entry in enumerate(entries) if entry.kind == "tool.finished") + 1
    left = MemoryJournal(first.journal.order_id, entries=entries[:until])
    left.texts.update({digest: text for digest, text in first.journal.texts.items() if text != DATA})
    assert "its bytes are not there any more" in json.dumps(await Seer(tmp_path, "chat", left=left).run())
