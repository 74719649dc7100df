"""An inbox item: what an agent asks people and what they answered; and a call's arguments, shortened for people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, InboxReply, InboxRequest
from mcc.contracts.invisible import count_invisible
from mcc.contracts.shape import to_json

SHOWN = 2_000
"""Most characters of one string argument that people are shown; the model's reply holds the whole."""

SHOWN_BYTES = 32_000
SHOWN_LEVELS = 12


@dataclass(slots=True)
class InboxItem:
    """A request and, once people have responded, what they said (`heard`)."""

    asked: InboxRequest
    heard: InboxReply | None = None


def item_id(fact: InboxRequest | InboxReply) -> str:
    """The id of the inbox item that a fact refers to."""
    return fact.approval_id if isinstance(fact, ApprovalRequested | ApprovalDecided) else fact.question_id


def shown_arguments(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Arguments with long strings cut; if still too long, only their names."""
    cut = {key[:SHOWN]: _cut(value, SHOWN_LEVELS) for key, value in arguments.items()}
    return cut if len(to_json(cut)) <= SHOWN_BYTES else dict.fromkeys([*cut][:50], "[too long to be shown here]")


def in_full(arguments: Mapping[str, object]) -> str:
    """All of a call's arguments as JSON on several lines; different arguments are different texts."""
    return json.dumps(arguments, ensure_ascii=False, indent=2, default=dict)


def invisible_in(value: object) -> int:
    """How many characters that nobody sees the texts and keys in `value`, JSON, hold."""
    if isinstance(value, str):
        return count_invisible(value)
    if isinstance(value, Mapping):
        return sum(invisible_in(str(key)) + invisible_in(item) for key, item in value.items())
    return sum(map(invisible_in, value)) if isinstance(value, list | tuple) else 0


def _cut(value: object, levels: int) -> object:
    if levels == 0:
        return "[nested too deep to be shown here]"
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]}[… {len(value) - SHOWN:,} more characters]"
    if isinstance(value, Mapping):
        return {str(key)[:SHOWN]: _cut(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, levels - 1) for item in value]
    return value
