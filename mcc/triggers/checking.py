"""Tables of triggers looked over before any delivery comes: their expressions, and what of their orders is literal."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from pydantic import ValidationError

from mcc.configuration.triggers import TriggerTable
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.similar import did_you_mean
from mcc.rules.braces import Braces, Unfilled
from mcc.rules.errors import ExpressionError
from mcc.rules.mistakes import mistakes
from mcc.triggers.template import FILLED_IN, SHAPES, SHAPES_OF_HMAC, compiled

NOT_OF_TRIGGERS = ("session_id", "not_before", "expires_at")
"""Fields of an order that a trigger decides, or that make no sense when it is placed again and again."""


class WrongTable(ValueError):
    """A trigger's table that cannot be used. `place`: the key, such as `order.labels[0]`; `str()` is a sentence without
    its full stop."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def check_table(table: TriggerTable, places: Mapping[str, Collection[str]] = MappingProxyType({})) -> None:
    """Compile all expressions, and try the order without what deliveries fill in. `places`: by `forge`, `slack` and
    `linear`, the names of the tables to which replies may go. Raises `WrongTable`."""
    for place, text, shapes in (
        ("when", table.when, SHAPES),
        ("id", table.id, SHAPES_OF_HMAC),
        ("event", table.event, SHAPES_OF_HMAC),
    ):
        try:
            if text is not None:
                compiled(text, tuple(shapes.items()))
        except ExpressionError as error:
            raise WrongTable(place, str(error)) from error
    braces = Braces(SHAPES, dict.fromkeys(SHAPES))
    try:
        braces.check(table.session, "session")
        for name in ("prompt", *FILLED_IN):
            braces.check(table.order.get(name), f"order.{name}")
        for key, filling in table.reply.texts.items() if table.reply else ():
            braces.check(filling, f"reply.{key}")
    except Unfilled as error:
        raise WrongTable(error.place, str(error)) from error
    if table.reply and table.reply.table not in (known := places.get(table.reply.place, ())):
        hint = did_you_mean(table.reply.table, known)
        raise WrongTable(f"reply.{table.reply.place}", f"there is no table [{table.reply.endpoint}]{hint}")
    _check_order(table)


def _check_order(table: TriggerTable) -> None:
    for name in NOT_OF_TRIGGERS:
        if name in table.order:
            raise WrongTable(f"order.{name}", f"{name} is not of triggers: leave it out")
    prompt = table.order.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise WrongTable("order.prompt", "a prompt is a text")
    literal = {name: value for name, value in table.order.items() if name not in FILLED_IN}
    if prompt:
        literal["prompt"] = "filled in"
    try:
        new = NewOrder.model_validate(literal)
    except ValidationError as error:
        mistake = mistakes(error.errors(), NewOrder)[0]
        raise WrongTable(".".join(filter(None, ("order", mistake.field))), mistake.message) from error
    if table.session is not None and (new.kind is not OrderKind.CHAT or new.document_id is not None):
        raise WrongTable("session", "only chats without a document are turns of a session: leave it out")
