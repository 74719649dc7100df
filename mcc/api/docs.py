"""The API's own description as a page: swagger-ui from a package, without inline scripts and without any other host."""

from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from mcc.api.problems import PROBLEM_TYPE

router = APIRouter(include_in_schema=False)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/api/docs/swagger.css"></head>
<body><div id="page"></div>
<script src="/api/docs/swagger.js"></script><script src="/api/docs/start.js"></script></body></html>
"""

# The page is for reading: it never has the operator's token, so it offers to send no request either.
START = """SwaggerUIBundle({
  url: "/api/v1/openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null, supportedSubmitMethods: []
});
"""


@router.get("/api/docs")
async def page(request: Request) -> Response:
    return HTMLResponse(PAGE.format(title=escape(request.app.title)))


@router.get("/api/docs/start.js")
async def start() -> Response:
    return Response(START, media_type="text/javascript")


@router.get("/api/docs/swagger.js")
async def script() -> Response:
    return _asset("swagger-ui-bundle.js")


@router.get("/api/docs/swagger.css")
async def style() -> Response:
    return _asset("swagger-ui.css")


def _asset(name: str) -> Response:
    # Of the package only its files are used: its own page has an inline script, which our headers forbid.
    return FileResponse(str(files("fastapi_offline") / "static" / name), headers={"Cache-Control": "max-age=3600"})


def install(app: FastAPI) -> None:
    """Describe `app` with the media type that its errors have; the framework describes all of them as plain JSON."""
    described_by_framework = app.openapi

    def document() -> dict[str, Any]:
        described = described_by_framework()
        for operation in (one for methods in described["paths"].values() for one in methods.values()):
            if problem := operation["responses"].get("default", {}).get("content", {}):
                operation["responses"]["default"]["content"] = {PROBLEM_TYPE: next(iter(problem.values()))}
        return described

    app.openapi = document  # type: ignore[method-assign]
