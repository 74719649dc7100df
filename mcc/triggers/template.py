"""The order of a delivery: whether it is one for it, its session, its fields and where its answer goes, by the
expressions of the trigger."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mcc.configuration.replies import ReplyTable
from mcc.configuration.triggers import TriggerTable
from mcc.contracts.fence import fenced
from mcc.contracts.replies import ReplyTarget, reply_target
from mcc.rules.braces import Braces, Unfilled, as_words
from mcc.rules.errors import MAX_STEPS, Fault, StepsExhausted
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import JSON_VALUE, JsonCopy, Shape, text_shape
from mcc.triggers.payload import ReadDelivery
from mcc.triggers.signatures import SIGNING

FILLED_IN = ("workspace", "ref", "labels", "metadata")
"""Fields of an order in which expressions stand, besides the prompt. All else is literal: whoever sends a delivery
chooses no agent, model, mode or permission."""

SESSION_CHARACTERS = 2_000

SHAPES: Mapping[str, Shape] = {
    "payload": JSON_VALUE,
    "headers": JSON_VALUE,
    "event": text_shape(),
    "id": text_shape(nullable=True),
    "trigger": text_shape(),
}
SHAPES_OF_HMAC: Mapping[str, Shape] = {name: SHAPES[name] for name in ("payload", "headers")}


@dataclass(frozen=True, slots=True)
class SeenDelivery:
    """A delivery as expressions see it."""

    trigger: str
    headers: Mapping[str, str]
    payload: Any
    event: str
    id: str | None

    @classmethod
    def of(cls, trigger: str, table: TriggerTable, headers: Mapping[str, str], read: ReadDelivery) -> "SeenDelivery":
        """`headers` without those that sign. An expression for id or event that fails gives none."""
        hidden = SIGNING | {(table.header or "").lower()}
        shown = {name: value for name, value in headers.items() if name not in hidden}
        values = {"payload": read.payload, "headers": shown}
        event, named = read.event, read.id
        if table.event is not None:
            event = _words_of(table.event, values) or ""
        if table.id is not None:
            named = _words_of(table.id, values)
        return cls(trigger, shown, read.payload, event, named or None)

    @property
    def values(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in SHAPES}


def why_not(table: TriggerTable, delivery: SeenDelivery) -> str:
    """Why the delivery is none for this trigger; "" where it is."""
    if table.when is None:
        return ""
    try:
        value = _value_of(table.when, SHAPES, delivery.values)
    except Fault as error:
        return f"when: {error}."
    except StepsExhausted:
        return "when: this takes more steps than one delivery may."
    except RecursionError:
        return "when: the payload is nested too deeply."
    if value is True:
        return ""
    return "when does not hold." if value is False else "when is neither true nor false."


@dataclass(frozen=True, slots=True)
class MadeOrder:
    """What is made of a delivery: the fields of its order, the text of its session, and where its answer goes."""

    fields: Mapping[str, Any]
    session: str | None
    reply: ReplyTarget | None


def order_of(table: TriggerTable, delivery: SeenDelivery, seed: str) -> MadeOrder:
    """What its trigger makes of a delivery. Raises `Unfilled`.

    Values in its prompt are fenced, as strangers may have written them; `seed` makes the fences, always the same ones.
    """
    try:
        braces = Braces(SHAPES, delivery.values)
    except Fault as error:
        raise Unfilled("payload", str(error)) from error
    except RecursionError as error:
        raise Unfilled("payload", "it is nested too deeply") from error
    filled = {name: braces.filled(table.order[name], f"order.{name}") for name in FILLED_IN if name in table.order}
    if (prompt := table.order.get("prompt")) is not None:
        filled["prompt"] = braces.framed(prompt, "order.prompt", lambda text: fenced(text, seed))
    session = None if table.session is None else as_words(braces.filled(table.session, "session"))
    if session is not None and (not session.strip() or len(session) > SESSION_CHARACTERS):
        raise Unfilled("session", f"the text that names the session is empty, or longer than {SESSION_CHARACTERS:,}")
    if session is not None and any("\ud800" <= letter <= "\udfff" for letter in session):
        raise Unfilled("session", "the text that names the session has half of a character")
    reply = None if table.reply is None else _reply_of(table.reply, braces)
    return MadeOrder({**table.order, **filled}, session, reply)


def _reply_of(table: ReplyTable, braces: Braces) -> ReplyTarget:
    """Raises `Unfilled`."""
    made = {key: as_words(braces.filled(text, f"reply.{key}")).strip() for key, text in table.texts.items()}
    fields: dict[str, Any] = {table.place: table.table, **{key: words for key, words in made.items() if words}}
    if table.place == "forge":
        # As GitLab writes them, whose issues and merge requests have numbers of their own.
        number = made["number"].removeprefix("!")
        fields["merge_request"] = number != made["number"]
        fields["number"] = int(number) if number.isascii() and number.isdecimal() and len(number) < 14 else number
    try:
        return reply_target(fields)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        raise Unfilled(f"reply.{key}", f"{made.get(key, '')[:100]!r} cannot be the {key} of a reply") from error


def _words_of(text: str, values: Mapping[str, Any]) -> str | None:
    try:
        return as_words(JsonCopy().of(_value_of(text, SHAPES_OF_HMAC, values)))
    except (Fault, StepsExhausted, RecursionError):
        return None


def _value_of(text: str, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Any:
    made = compiled(text, tuple(shapes.items()))
    copy = JsonCopy()
    return made.value(made.frame({name: copy.of(values[name]) for name in made.names}, MAX_STEPS))


@functools.lru_cache(maxsize=512)
def compiled(text: str, shapes: tuple[tuple[str, Shape], ...]) -> Expression:
    """Raises `ExpressionError`."""
    return expression(text, dict(shapes))
