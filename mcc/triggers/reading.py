"""The work of the side process that reads deliveries: strangers choose how large and how deep they are."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from mcc.configuration.triggers import TriggerTable
from mcc.contracts.shape import Closed, JsonObject, Text
from mcc.rules.braces import Unfilled
from mcc.triggers.payload import UnreadableBody, is_late, is_own, read_payload
from mcc.triggers.template import SeenDelivery, order_of, why_not

ReadOutcome = Literal["unreadable", "late", "challenge", "own", "no_match", "refused", "order"]


class QuestionOfDelivery(Closed):
    """A signed delivery to read. `at`: when it came, in seconds since 1970. `seed`: of the fences in its prompt."""

    trigger: str
    table: TriggerTable
    headers: Mapping[str, Text]
    body: Text
    at: float
    seed: str


class AnswerOfDelivery(Closed):
    """What a delivery is to its trigger. `why`: a sentence where it is no order; what to answer to a challenge.
    `session`: the text that names the session of the order; `reply`: where its answer goes, as a `ReplyTarget`."""

    outcome: ReadOutcome
    why: Text = ""
    event: Text = ""
    id: Text | None = None
    order: JsonObject | None = None
    session: Text | None = None
    reply: JsonObject | None = None


def delivery_reader() -> Callable[[Any], object]:
    """Answers questions of deliveries, both as JSON."""
    return lambda question: dict(answered(QuestionOfDelivery.model_validate(question)))


def answered(asked: QuestionOfDelivery) -> AnswerOfDelivery:
    """What the delivery is to its trigger."""
    table = asked.table
    try:
        read = read_payload(table.scheme, asked.headers, asked.body)
    except UnreadableBody as error:
        return AnswerOfDelivery(outcome="unreadable", why=str(error))
    if is_late(table.scheme, read.payload, asked.at):
        return AnswerOfDelivery(outcome="late")
    if read.challenge is not None:
        return AnswerOfDelivery(outcome="challenge", why=read.challenge)
    delivery = SeenDelivery.of(asked.trigger, table, asked.headers, read)

    def answer(outcome: ReadOutcome, why: str = "", **order: Any) -> AnswerOfDelivery:
        return AnswerOfDelivery(outcome=outcome, why=why, event=delivery.event, id=delivery.id, **order)

    if table.scheme == "github" and delivery.event == "ping":
        return answer("no_match", "A ping starts nothing.")
    if is_own(table.scheme, read.payload):
        return answer("own", "It tells of what this service wrote itself.")
    if why := why_not(table, delivery):
        return answer("no_match", why)
    try:
        made = order_of(table, delivery, asked.seed)
    except Unfilled as error:
        return answer("refused", f"{error.place}: {error}.")
    reply = made.reply.model_dump(exclude_defaults=True) if made.reply else None
    return answer("order", order=made.fields, session=made.session, reply=reply)
