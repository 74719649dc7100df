"""What is known of models by their names: a dated table that ships, by provider and beginning of the name."""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from mcc.configuration.providers import FAMILIES, MAKERS
from mcc.rules.patterns import Pattern

TABLE = Path(__file__).with_name("known_models.json")
"""Written by `python -m scripts.known_models`; each row names its source and that source's version."""

_ENDING = Pattern(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}|latest|default))?(-v\d+(:\d+)?)?$")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What is known of one model; None and empty where nobody said.

    `context_tokens` hold question and reply together, `max_output_tokens` a reply with its thinking. `thinking`: the
    levels that it takes, "off" among them where it can be kept from thinking. `thinks_by`: an effort, or a budget of
    tokens. `thinking_off`: what says off to a model that thinks unless it is told.
    """

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    thinking: tuple[str, ...] = ()
    thinks_by_default: bool | None = None
    thinks_by: Literal["effort", "budget"] | None = None
    thinking_off: str = ""
    tools: bool | None = None
    images: bool | None = None
    files: bool | None = None
    source: str = ""


UNKNOWN = KnownModel()


def known_model(provider: str, model: str) -> KnownModel:
    """The row of this provider, with what its maker's row says besides; `UNKNOWN` where there is none.

    Dates and versions at the end of a name (`-20251001`, `@latest`, `-v1:0`) need not be in the table.
    """
    own = _row(provider, model.lower())
    made = [row for vendor, name in _makers(model.lower()) if (row := _row(vendor, name))]
    rows: list[Mapping[str, Any]] = [*made, *([own] if own else [])]
    told = {name: value for row in rows for name, value in row.items() if name in _FIELDS}
    return KnownModel(**told | {"thinking": tuple(told.get("thinking", ()))}) if told else UNKNOWN


def not_thought(name: str, level: str) -> str | None:
    """What the model of this name (`provider/model`) does not take, and what it does; None where it takes this level,
    or nothing is known of it."""
    provider, _, model = name.partition("/")
    taken = known_model(provider, model).thinking
    if level == "inherit" or not taken or level in taken:
        return None
    return f"does not take thinking {level}; it takes {', '.join(taken)}"


def listed_price(provider: str, model: str) -> Mapping[str, Any] | None:
    """US dollars per million tokens as this provider's own row has them; None where there is none."""
    row = _row(provider, model.lower())
    return row.get("price") if row else None


_FIELDS = frozenset(field.name for field in fields(KnownModel))


def _makers(model: str) -> Iterator[tuple[str, str]]:
    """Who may have made it, and what they call it."""
    for prefix, vendor in MAKERS.items():
        for mark in (f"{prefix}/", f"{prefix}."):
            if mark in model:
                yield vendor, model.partition(mark)[2]
    name = model.rpartition("/")[2]
    yield from ((maker, name) for family, maker in FAMILIES.items() if name.startswith(family))


def _row(provider: str, model: str) -> Mapping[str, Any] | None:
    rows = _table().get(provider, ())
    for name in dict.fromkeys((model, _ENDING.sub("", model))):
        for row in rows:
            if name in row["names"]:
                return row
    near = [(len(one), row) for row in rows for one in row["names"] if one[-1] == "*" and model.startswith(one[:-1])]
    return max(near, key=lambda found: found[0])[1] if near else None


@functools.cache
def _table() -> Mapping[str, list[Mapping[str, Any]]]:
    by_provider: dict[str, list[Mapping[str, Any]]] = {}
    for row in json.loads(TABLE.read_text())["models"]:
        by_provider.setdefault(row["provider"], []).append(row)
    return by_provider
