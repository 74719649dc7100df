"""Messages of a session's turns in their canonical form: what later turns are shown, and what is stored of it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from mcc.contracts.blocks import AnyBlock, Block, ImageBlock
from mcc.contracts.shape import to_json
from mcc.redaction import Redactor
from mcc.transcript.messages import AssistantMessage, Message, Picture, ToolResult, ToolResults, UserMessage

_BLOCKS: TypeAdapter[tuple[AnyBlock, ...]] = TypeAdapter(tuple[Block, ...])
_IMAGE: TypeAdapter[ImageBlock] = TypeAdapter(ImageBlock)


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of a session and where it comes from. `form`: its canonical form, a JSON object.

    That is `{"user", "person"?, "attachments"?}`, `{"assistant", "model"}` or `{"results", "notices"}`, with
    `order_id`, `turn` (the number of the turn in its session) and `seq` (of the entry that made the message), which no
    model is shown. A picture that is not shown any more stays in it, `hidden`: it can be seen again by its handle.
    """

    form: Mapping[str, Any]
    message: Message

    @classmethod
    def of(
        cls, message: Message, order_id: str, turn: int, seq: int, artifacts: Mapping[str, str] | None = None
    ) -> "ShownMessage":
        """`artifacts`: digests of the whole texts of its results, by call id."""
        place = {"order_id": order_id, "turn": turn, "seq": seq}
        return cls(_form(message, artifacts or {}) | place, message)

    @classmethod
    def read(cls, form: Mapping[str, Any]) -> "ShownMessage":
        """Raises ValueError for what is no canonical form."""
        try:
            return cls(form, _message(form))
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"a stored message cannot be read: {problem!r}") from problem

    def without(self, redactor: Redactor) -> "ShownMessage":
        """The same message as models may be shown it, without secrets. What is stored of it stays as it is."""
        clean = redactor.value(self.form)
        return self if clean == self.form else replace(self, message=_message(clean))

    def saying(self, message: Message, artifacts: Mapping[str, str]) -> "ShownMessage":
        """The same place with this message instead. `artifacts`: digests of whole texts by call id, before those that
        it has."""
        known = {one["call_id"]: one["artifact"] for one in self.form.get("results", ()) if one["artifact"]}
        return self.of(message, self.order_id, self.form["turn"], self.form["seq"], {**known, **artifacts})

    @property
    def order_id(self) -> str:
        """The order whose turn it belongs to; empty: the list of turns that are not shown themselves."""
        return str(self.form["order_id"])

    @property
    def artifacts(self) -> Sequence[str]:
        """Digests of the whole texts of results of which it has a part."""
        return [one["artifact"] for one in self.form.get("results", ()) if one["artifact"]]

    @property
    def pictures(self) -> Sequence[ImageBlock]:
        """The pictures that it has."""
        results = (image for one in self.form.get("results", ()) for image in one["images"])
        attached = (one["image"] for one in self.form.get("attachments", ()))
        return [_picture(form).image for form in (*results, *attached)]

    @property
    def turn(self) -> int:
        return int(self.form["turn"])


def _form(message: Message, artifacts: Mapping[str, str]) -> dict[str, Any]:
    match message:
        case UserMessage(text=text, pictures=pictures):
            attached = [{"image": _picture_form(picture), "at": picture.at} for picture in pictures]
            said = {"user": text, "person": True} if message.by_person else {"user": text}
            return {**said, "attachments": attached} if attached else said
        case AssistantMessage(blocks=blocks, model=model):
            return {"assistant": [block.model_dump() for block in blocks], "model": model}
        case ToolResults(results=results, notices=notices):
            return {
                "results": [
                    {
                        "call_id": result.call_id,
                        "name": result.name,
                        "content": result.content,
                        "is_error": result.is_error,
                        "images": [*map(_picture_form, result.pictures)],
                        "artifact": artifacts.get(result.call_id),
                    }
                    for result in results
                ],
                "notices": list(notices),
            }


def _message(form: Mapping[str, Any]) -> Message:
    if "user" in form:
        attached = form.get("attachments", ())
        return UserMessage(
            form["user"],
            tuple(_picture(picture["image"], picture["at"]) for picture in attached),
            by_person=form.get("person") is True,
        )
    if "assistant" in form:
        return AssistantMessage(_BLOCKS.validate_python(form["assistant"]), form["model"])
    results = (
        ToolResult(
            result["call_id"],
            result["name"],
            result["content"],
            result["is_error"],
            tuple(map(_picture, result["images"])),
        )
        for result in form["results"]
    )
    return ToolResults(tuple(results), tuple(form["notices"]))


def _picture_form(picture: Picture) -> dict[str, Any]:
    """A picture as its block, with what models read in its place if it is not shown any more."""
    form = picture.image.model_dump()
    return {**form, "hidden": picture.hidden} if picture.hidden else form


def _picture(form: Mapping[str, Any], at: int = 0) -> Picture:
    block = {name: value for name, value in form.items() if name != "hidden"}
    return Picture(_IMAGE.validate_python(block), at=at, hidden=str(form.get("hidden", "")))


def canonical_form(message: Message) -> bytes:
    """The message alone as it is stored, without its place."""
    return to_json(_form(message, {}))


def canonical(shown: Iterable[ShownMessage]) -> bytes:
    """The messages as stored: one JSON list."""
    return to_json([one.form for one in shown])


def read_all(forms: Sequence[Mapping[str, Any]]) -> tuple[ShownMessage, ...]:
    """Raises ValueError."""
    return tuple(map(ShownMessage.read, forms))


def digest_of(shown: Iterable[ShownMessage]) -> str:
    """SHA-256 in hex of the messages as stored."""
    return hashlib.sha256(canonical(shown)).hexdigest()
