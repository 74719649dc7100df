"""This room is for the API's own description as a page, without a script and without any other host."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, Response

from mcc.api.problems import PROBLEM_TYPE

router = APIRouter(include_in_schema=False)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
       background: #fff; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #d0d7de; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
.method { font-weight: 700; display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { border: 1px solid #d0d7de; padding: .2rem .6rem; text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3; } a { color: #79b8ff; }
  td, th, h2 { border-color: #3d444d; }
}
"""


@router.get("/api/docs")
async def page(request: Request) -> Response:
    return HTMLResponse(render(request.app.openapi()))


@router.get("/api/docs.css")
async def style() -> Response:
    return Response(STYLE, media_type="text/css")


def install(app: FastAPI) -> None:
    """Describe `app` with the media type that its errors have; the framework describes all of them as plain JSON."""
    as_framework_says = app.openapi

    def document() -> dict[str, Any]:
        said = as_framework_says()
        for operation in (told for methods in said["paths"].values() for told in methods.values()):
            if problem := operation["responses"].get("default", {}).get("content", {}):
                operation["responses"]["default"]["content"] = {PROBLEM_TYPE: next(iter(problem.values()))}
        return said

    app.openapi = document  # type: ignore[method-assign]


def render(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as one HTML page."""
    title = escape(document["info"]["title"])
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title><link rel="stylesheet" href="/api/docs.css"></head><body><main><h1>{title}</h1>',
            f"<p>{escape(document['info'].get('description', ''))}</p>",
            '<p>As a document: <a href="/api/v1/openapi.json">openapi.json</a></p>',
            "".join(_operations(document)),
            "<h1>Shapes</h1>",
            "".join(_shapes(document)),
            "</main></body></html>",
        )
    )


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            yield f'<h2><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h2>'
            yield f"<p>{escape(told.get('description', ''))}</p>"
            yield _parameters(told.get("parameters", ()))
            if body := told.get("requestBody"):
                yield f"<p>Body: {_type(body['content']['application/json']['schema'])}</p>"
            yield from (f"<p>{code}: {_answer(one)}</p>" for code, one in told.get("responses", {}).items())


def _parameters(parameters: Any) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{_type(one.get('schema', {}))}</td></tr>"
        for one in parameters
    )
    return f"<table><tr><th>parameter</th><th>in</th><th>type</th></tr>{rows}</table>" if rows else ""


def _answer(response: Mapping[str, Any]) -> str:
    shapes = [_type(content["schema"]) for content in response.get("content", {}).values() if content.get("schema")]
    return ", ".join(shapes) or escape(response.get("description", ""))


def _shapes(document: Mapping[str, Any]) -> Iterator[str]:
    for name, shape in sorted(document.get("components", {}).get("schemas", {}).items()):
        yield f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{escape(shape.get("description", ""))}</p>'
        rows = "".join(
            f"<tr><td><code>{escape(field)}</code></td><td>{_type(told)}</td></tr>"
            for field, told in shape.get("properties", {}).items()
        )
        if rows:
            yield f"<table><tr><th>field</th><th>type</th></tr>{rows}</table>"


def _type(schema: Any) -> str:
    """A schema in a few words, with links to named shapes."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if "enum" in schema:
        return " · ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))
