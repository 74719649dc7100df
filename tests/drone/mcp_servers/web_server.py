"""An MCP server at an address of this machine that follows a plan, in both protocol versions."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOOL = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
Act = Callable[["Served", web.Request, dict[str, Any]], Any]


@dataclass
class Served:
    """`act` may answer a request in its own way; None leaves it to the server. `heard` are the headers of all."""

    url: str = ""
    heard: list[dict[str, Any]] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    act: Act | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.heard.append(dict(request.headers))
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        self.methods.append(asked["method"])
        self.bodies.append(asked)
        own = self.act(self, request, asked) if self.act else None
        if asyncio.iscoroutine(own):
            own = await own
        if isinstance(own, web.StreamResponse):
            return own
        if "id" not in asked:
            return web.Response(status=202)
        return answer(asked, own if own is not None else usual(asked))


def usual(asked: dict[str, Any]) -> dict[str, Any]:
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    match asked["method"]:
        case "server/discover":
            return {**stamp, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "tools/list":
            return {**stamp, "tools": [TOOL]}
        case _:
            return {"resultType": "complete", "content": [{"type": "text", "text": "seen"}]}


def answer(asked: dict[str, Any], result: dict[str, Any]) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@asynccontextmanager
async def served(act: Act | None = None) -> AsyncIterator[Served]:
    server = Served(act=act)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield server
    finally:
        await runner.cleanup()


def event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
