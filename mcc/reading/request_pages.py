"""A page of a model's request: as many messages as an answer takes, and the beginnings of texts that are too long."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.model_calls import AskedMessage, AskedTool
from mcc.contracts.shape import to_json
from mcc.transcript.asked import shown_message
from mcc.transcript.heard import PlacedMessage

ANSWER_BYTES = 1_000_000
"""The size at which the messages of an answer end, though there are more."""

PART_BYTES = 500_000
"""The size of a message, of the system prompt, or of all tools, from which on texts in it are cut."""

LONGEST_TEXTS = (100_000, 20_000, 4_000, 800, 100)
"""How many characters are left of each text: the first figure with which the part is short enough, at worst the last.
"""

MOST_BLOCKS = 1_000
"""Blocks of a message that has to be cut, and tools of a request whose tools have to be."""


class RequestBeginning(NamedTuple):
    """What a request has before its messages. `cut`: not all of it."""

    system: str
    tools: tuple[AskedTool, ...]
    cut: bool = False


def short_beginning(system: str, tools: Sequence[AskedTool]) -> RequestBeginning:
    (text,) = _shortened([{"text": system}])
    forms = [tool.model_dump() for tool in tools]
    short = _shortened(forms)
    shown = tuple(tools) if short is forms else tuple(AskedTool.model_validate(form) for form in short)
    return RequestBeginning(text["text"], shown, text["text"] != system or short is not forms)


def fitting_messages(placed: Sequence[PlacedMessage]) -> Sequence[AskedMessage]:
    """The first messages, as many as fit into an answer, at least one."""
    messages: list[AskedMessage] = []
    size = 0
    for heard in placed:
        message = shown_message(heard)
        forms = [block.model_dump() for block in message.blocks]
        short = _shortened(forms)
        size += _size(short)
        if messages and size > ANSWER_BYTES:
            break
        form = {**message.model_dump(exclude={"blocks"}), "blocks": short, "cut": True}
        messages.append(message if short is forms else AskedMessage.model_validate(form))
    return messages


def _size(value: object) -> int:
    """In bytes, as it is sent."""
    return len(escape_invisible_json(to_json(value)))


def _shortened(forms: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The same list where it is not too long, else one of shorter forms."""
    short = forms
    for longest in LONGEST_TEXTS:
        if _size(short) <= PART_BYTES:
            break
        short = [_short_form(form, longest) for form in forms[:MOST_BLOCKS]]
    return short


def _short_form(form: Mapping[str, Any], longest: int) -> Mapping[str, Any]:
    """The form with the beginnings of its texts, and without what has many of them."""
    short = {name: _beginning(value, longest) for name, value in form.items()}
    for name, value in form.items():
        if not isinstance(value, str) and _size(value) > max(longest, 400):
            short[name] = _beginning(to_json(value).decode(), longest) if name == "arguments" else None
    if form.get("type") == "opaque":
        return {"type": "text", "text": f"[… {_size(form):,} bytes that only the provider can read …]"}
    return short


def _beginning(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}[… {len(value) - longest:,} more characters]"
    return value
