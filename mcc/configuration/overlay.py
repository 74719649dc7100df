"""What a trusted mcc.toml of a checkout may set: models by name, never where they are or which key they are sent."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Tables: TypeAlias = Mapping[str, Any]

TABLES = ("defaults",)
"""Tables that count as a whole."""

MODEL_KEYS = ("provider", "model", "price")
"""Keys that count in [models.ALIAS]. What names an address, a key, a file or another program is never one of them."""

BY_FILE = "scripted"
"""The provider whose models are named by paths: a device or a pipe would be read like any other file."""

NAMED = 12
NAME_CHARACTERS = 60


def laid_over(own: Tables, trusted: Tables) -> tuple[Tables, tuple[str, ...]]:
    """`own` with what counts of `trusted` over it, and the names of what does not.

    The provider of a model that `own` describes by more than these keys stays: an address or a key that the user chose
    for one provider would go to another. Nothing makes a model a script, whose name is the path of any file.
    """
    whole = {name: {**own.get(name, {}), **table} for name, table in _tables(trusted).items() if name in TABLES}
    models = dict(own.get("models", {}))
    left: list[str] = []
    for alias, wished in _tables(_tables(trusted).get("models", {})).items():
        known = models.get(alias, {})
        counts = {key: value for key, value in wished.items() if key in MODEL_KEYS and not _moves(known, key, value)}
        if {**known, **counts}.get("provider") == BY_FILE:
            counts = {key: value for key, value in counts.items() if key not in ("provider", "model")}
        left += (f"[models.{alias}] {key}" for key in wished if key not in counts)
        if counts:
            models[alias] = {**known, **counts}
    with_models = {"models": models} if models else {}
    return {**own, **whole, **with_models}, _named([*_others(trusted), *left])


def _moves(known: Mapping[str, Any], key: str, value: object) -> bool:
    """Whether this would ask another provider with what belongs to the user's own choice of one."""
    return key == "provider" and value != known.get(key) and any(own not in MODEL_KEYS for own in known)


def _tables(tables: Tables) -> Mapping[str, Mapping[str, Any]]:
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def _others(trusted: Tables) -> Iterator[str]:
    """What stands in no table that may count."""
    for name, table in trusted.items():
        if not isinstance(table, dict):
            yield name
        elif name == "models":
            yield from (f"[models] {alias}" for alias, model in table.items() if not isinstance(model, dict))
        elif name not in TABLES:
            yield from (f"[{name}] {key}" for key in table) if table else (f"[{name}]",)


def _named(names: list[str]) -> tuple[str, ...]:
    """Few enough, and short enough, to be told in one line."""
    cut = [name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in names[:NAMED]]
    return (*cut, f"{len(names) - NAMED} more") if len(names) > NAMED else tuple(cut)
