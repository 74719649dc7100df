"""The page on HTTP: every address, and the shapes that go in and out."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcc.api.access.guard import OPEN_PATHS
from mcc.api.app import build_app
from mcc.console.shell import ADDRESSES
from mcc.settings import ServiceSettings
from mcc.testing import temporary_store
from scripts.reference.markdown import code, properties, shape, table

PLAIN = frozenset({"application/json", "application/problem+json"})
"""Kinds of content that the head of the page speaks of."""


def page() -> Iterator[str]:
    store = temporary_store()
    document = build_app(ServiceSettings(data_dir=Path("/")), store, token="").openapi()
    shapes = document["components"]["schemas"]
    yield from _head()
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            yield from _operation(method.upper(), path, told, shapes)
    yield from ("# Shapes", "")
    for name in sorted(shapes):
        yield from _shape(name, shapes[name], shapes)


def _head() -> Iterator[str]:
    yield from ("# HTTP", "")
    yield "Send `Authorization: Bearer TOKEN` with every request. Without it are answered only"
    yield f"{', '.join(map(code, sorted(OPEN_PATHS)))}, the page's files below `/console/`, and its own addresses:"
    yield f"{', '.join(map(code, ADDRESSES))}."
    yield "Bodies are JSON (`Content-Type: application/json`). Errors are `application/problem+json` with a sentence in"
    yield "`detail`. Lists are answered as `{items, next_cursor}`; `?cursor=` gets the next page. A running service"
    yield from ("describes itself at `/api/docs` and `/api/v1/openapi.json`.", "")


def _operation(method: str, path: str, told: Mapping[str, Any], shapes: Iterable[str]) -> Iterator[str]:
    yield from (f"## {method} {path}", "", " ".join(told.get("description", "").split()), "")
    parameters = told.get("parameters", ())
    if parameters:
        rows = ((code(one["name"]), one["in"], shape(one["schema"], shapes)) for one in parameters)
        yield from table(("parameter", "in", "value"), rows)
    if body := told.get("requestBody"):
        yield from (f"Body: {_content(body, shapes)}", "")
    answers = ((_status(status), _content(one, shapes)) for status, one in sorted(told["responses"].items()))
    yield from table(("answer", "with"), answers)


def _status(said: str) -> str:
    return "any other" if said == "default" else said


def _content(told: Mapping[str, Any], shapes: Iterable[str]) -> str:
    schemas = [one["schema"] for one in told.get("content", {}).values()]
    said = list(dict.fromkeys(shape(schema, shapes) for schema in schemas if schema))
    kinds = [kind for kind in told.get("content", {}) if kind not in PLAIN]
    return " ".join([*said, *(f"({kind})" for kind in kinds)]) or told.get("description", "")


def _shape(name: str, schema: Mapping[str, Any], shapes: Iterable[str]) -> Iterator[str]:
    yield from (f"## {name}", "")
    if said := " ".join(schema.get("description", "").split()):
        yield from (said, "")
    if "enum" in schema:
        yield from (", ".join(map(code, schema["enum"])), "")
    elif schema.get("properties"):
        yield from table(("field", "value", "default"), properties(schema, shapes))
    elif "anyOf" in schema:
        yield from (shape(schema, shapes), "")
