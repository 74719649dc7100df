"""The page over HTTP: its shell at each of its addresses, and the files that it loads."""

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from mcc.api.problems import Refusal
from mcc.configuration.oidc import OidcSettings
from mcc.console.files import Console
from mcc.console.shell import ADDRESSES, CONTENT_SECURITY_POLICY, PageShell

FILES = "/console"

FOR_GOOD = "public, max-age=31536000, immutable"


def page_routes(console: Console, oidc: OidcSettings | None = None) -> APIRouter:
    """The routes of the page, none of which holds data of this installation. `oidc`: by which people sign in."""
    router = APIRouter(include_in_schema=False)
    shell = PageShell(console, oidc.name if oidc is not None else None)

    async def answer_shell(request: Request) -> Response:
        # The path of routing: `request.url` includes the Host header, so its sender could make the path look different.
        html = shell.html(str(request.scope["path"]))
        return HTMLResponse(html, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    async def answer_file(build: str, name: str, request: Request) -> Response:
        known = await asyncio.to_thread(getattr, console, "files") if build == console.build else {}
        file = known.get(name)
        if file is None:
            raise Refusal(404, "There is no such file: the page is of another version of this service. Reload it.")
        headers = {"Cache-Control": FOR_GOOD, "Vary": "Accept-Encoding"}
        if file.compressed is None or not takes_gzip(request.headers.get("accept-encoding", "")):
            return Response(file.content, media_type=file.media_type, headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, media_type=file.media_type, headers=headers)

    for address in ADDRESSES:
        router.add_api_route(address, answer_shell)
    router.add_api_route(f"{FILES}/{{build}}/{{name:path}}", answer_file)
    return router


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header names gzip without the weight 0, which means never."""
    for coding in accepted.lower().split(","):
        name, _, parameters = coding.partition(";")
        if name.strip() == "gzip":
            weight = parameters.partition("q=")[2].strip()
            return not weight or weight.strip("0.") != ""
    return False
