"""Pictures in a first message: each wire format carries them between the words, in their order."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import Ask
from drone.models.prices import KnownModel
from mcc.configuration.providers import Form
from mcc.contracts.blocks import ImageBlock
from mcc.transcript.messages import Picture, UserMessage
from tests.drone.models.conftest import Provider, RecordingListener
from tests.drone.models.dialects.test_pictures_in_the_loop import ANSWERS, SEEING, Seer

TEXT = "Look.\n\n[a]\n\n[b]"
PICTURES = tuple(
    Picture(
        ImageBlock(artifact=name, media_type="image/png", name=f"{name}.png"), data=data, at=TEXT.index("]", at) + 1
    )
    for name, data, at in (("a", "QQ==", 0), ("b", "Qg==", TEXT.index("b")))
)
FIRST = UserMessage(TEXT, PICTURES)


def of_chat(body: Any) -> Any:
    return [part.get("text") or part["image_url"]["url"][-4:] for part in body["messages"][-1]["content"]]


def of_anthropic(body: Any) -> Any:
    return [part.get("text") or part["source"]["data"] for part in body["messages"][-1]["content"]]


def of_responses(body: Any) -> Any:
    return [part.get("text") or part["image_url"][-4:] for part in body["input"][-1]["content"]]


def of_gemini(body: Any) -> Any:
    return [part.get("text") or part["inlineData"]["data"] for part in body["contents"][-1]["parts"]]


PARTS: Mapping[Form, Any] = {
    "chat": of_chat,
    "anthropic": of_anthropic,
    "responses": of_responses,
    "gemini": of_gemini,
}


async def asked(form: Form, known: KnownModel = SEEING) -> Any:
    server = Provider(httpx.Response(200, json=ANSWERS[form]("A logo.")))
    await Seer.asked_by(server, form, known, "m").ask(Ask("", (FIRST,)), RecordingListener())
    return server.body


@pytest.mark.parametrize("form", PARTS)
async def test_each_picture_follows_its_own_line(form: Form) -> None:
    assert PARTS[form](await asked(form)) == ["Look.\n\n[a]", "QQ==", "\n\n[b]", "Qg=="]


@pytest.mark.parametrize("form", PARTS)
async def test_a_model_without_eyes_is_told_in_the_picture_s_place(form: Form) -> None:
    body = json.dumps(await asked(form, KnownModel()))
    assert "QQ==" not in body and "[a]\\n[picture a.png not shown: x/m takes no pictures" in body
