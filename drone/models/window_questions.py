"""How self-hosted servers are asked for the context size of their model, and how their answers are read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Reading: TypeAlias = Callable[[object, str], int | None]
"""Reads the context size in tokens of the named model from a server's answer."""


@dataclass(frozen=True, slots=True)
class WindowQuestion:
    """`path` is relative to the base_url, or to the server's root if it begins with a slash; {model} in it stands for
    the model's name. `posted`: the name is sent in the body instead."""

    path: str
    read: Reading
    posted: bool = False


def _from_list(*fields: str) -> Reading:
    """Reads the first of `fields` from the list entry with the model's name, else from the only entry."""

    def tokens(answer: object, model: str) -> int | None:
        rows = [row for row in _rows(answer) if isinstance(row, Mapping)]
        own = [row for row in rows if any(_same_model(row.get(name), model) for name in ("id", "name", "model"))]
        found = own or (rows if len(rows) == 1 else [])
        return next((size for row in found for field in fields if (size := _number(row.get(field)))), None)

    return tokens


def _rows(answer: object) -> Iterator[object]:
    for name in ("data", "models"):
        rows = answer.get(name) if isinstance(answer, Mapping) else None
        yield from rows if isinstance(rows, list) else ()


def _same_model(name: object, model: str) -> bool:
    return isinstance(name, str) and name.removesuffix(":latest") == model.removesuffix(":latest")


def _slot_size(answer: object, model: str) -> int | None:
    settings = answer.get("default_generation_settings") if isinstance(answer, Mapping) else None
    return _number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


def _model_file_size(answer: object, model: str) -> int | None:
    """A model file has one parameter per line: its name, then its value."""
    text = answer.get("parameters") if isinstance(answer, Mapping) else None
    lines = text.splitlines() if isinstance(text, str) else ()
    values = [line.split()[-1] for line in lines if line.split()[:1] == ["num_ctx"]]
    return int(values[-1]) if values else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


ELSEWHERE = (WindowQuestion("models", _from_list("max_model_len", "context_length", "context_window")),)
"""For servers of which only the chat completions interface is known."""

QUESTIONS: Mapping[str, tuple[WindowQuestion, ...]] = {
    "vllm": (WindowQuestion("models", _from_list("max_model_len")),),
    "llamacpp": (WindowQuestion("/props?model={model}&autoload=false", _slot_size),),
    "lmstudio": (WindowQuestion("/api/v0/models", _from_list("loaded_context_length")),),
    "ollama": (
        WindowQuestion("/api/ps", _from_list("context_length")),
        WindowQuestion("/api/show", _model_file_size, posted=True),
    ),
}
"""By provider. Only the size configured on the server counts, not what the model itself would support."""
