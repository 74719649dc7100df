"""Secrets of a family, one for each place where one lives, and the servers that say those they are sent."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from aiohttp import web

from mcc.redaction import MARK
from tests.drone.mcp_servers import web_server
from tests.fake_provider.behaviours import Behaviour
from tests.fake_provider.chat_form import ChatForm
from tests.fake_provider.play import Heard, Say
from tests.fake_provider.server import FakeProvider
from tests.fake_provider.server import served as serve_provider


def canary(number: int) -> str:
    """Looks like nothing else, and like no other one."""
    return f"canary-{number}-of-the-{['first', 'second', 'third'][number % 3]}/kind+{number * 7919:x}Zq{'xyzw' * 4}"


OF_THE_DRONE: Mapping[str, str] = {
    "FAKE_PROVIDER_KEY": canary(1),
    "REFUSED_KEY": canary(2),
    "ANTHROPIC_API_KEY": canary(3),
    "HELD_BY_PROXY": canary(4),
    "OF_THE_DESK": canary(5),
    "OF_THE_WIRE": canary(6),
    "OF_THE_ENGINE": canary(7),
}
"""Variables that only drones may have: keys, and what `mcc.toml` says is a secret, whatever it is called."""

OF_ALL: Mapping[str, str] = {"DEPLOY_TOKEN": canary(8)}
"""Variables that look like secrets, and are nobody's in here."""

ACCESS, REFRESH = canary(9), canary(10)
"""With which the drones are let in to a server by OAuth."""


def forms(secret: str) -> set[bytes]:
    """A secret as it may stand somewhere, whole."""
    in_base64 = {base64.b64encode(b"x" * before + secret.encode())[8:-8] for before in range(3)}
    return {secret.encode(), quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode(), *in_base64}


@dataclass
class Found:
    """Looks for these secrets in whatever it is given: how much of each sink it has `seen`, with how many `marks` in a
    secret's place."""

    secrets: Mapping[str, str]
    leaks: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)

    def look(self, sink: str, content: bytes | str) -> None:
        data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
        kind = sink.partition(" ")[0]
        self.seen[kind] = self.seen.get(kind, 0) + len(data)
        self.marks[kind] = self.marks.get(kind, 0) + data.count(MARK.encode())
        for name, secret in self.secrets.items():
            for form in forms(secret):
                if (at := data.find(form)) >= 0:
                    self.leaks.append(f"{name} in {sink}: …{data[max(0, at - 60) : at + 20]!r}")
                    break


@dataclass
class Outside:
    """The servers of one test; `script` are the model's replies, one after the other."""

    provider: FakeProvider
    addresses: dict[str, str] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    """What else than models was asked, without the headers that secrets belong into."""


@contextmanager
def outside(script: list[Say]) -> Iterator[Outside]:
    """A model, one that refuses its key aloud, an MCP server that says its token, another one with OAuth, pages and a
    search engine that say what they were sent."""

    def play(heard: Heard) -> Say:
        return script[heard.replies] if heard.replies < len(script) else Say("All is said.")

    here = Outside(FakeProvider(Behaviour("canaries", "plays a script", ChatForm(), "openai", api="chat"), play))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = AsyncExitStack()
    asyncio.run_coroutine_threadsafe(_open(here, stack), loop).result(20)
    try:
        yield here
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _open(here: Outside, stack: AsyncExitStack) -> None:
    here.addresses["model"] = await stack.enter_async_context(serve_provider(here.provider))
    for name in ("wire", "gate"):
        server = await stack.enter_async_context(web_server.served(_saying_its_headers(here)))
        here.addresses[name] = server.url
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _echoing(here))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here.addresses["pages"] = f"http://127.0.0.1:{runner.addresses[0][1]}"


def _saying_its_headers(here: Outside) -> web_server.Act:
    def act(server: web_server.Served, request: web.Request, asked: dict[str, Any]) -> Any:
        here.heard.append(json.dumps(asked))
        if asked["method"] == "tools/call":
            said = json.dumps([*map(list, request.headers.items()), asked["params"]])
            return {"resultType": "complete", "content": [{"type": "text", "text": said}]}
        return None

    return act


def _echoing(here: Outside) -> Any:
    """Every page says all that was sent for it; what a model would ask is refused with that."""

    async def answer(request: web.Request) -> web.Response:
        here.heard.append(f"{request.method} {request.raw_path if request.method == 'GET' else ''}")
        said = "\n".join([request.raw_path, *(f"{name}: {value}" for name, value in request.headers.items())])
        if request.method == "POST":
            return web.json_response({"error": {"message": f"Incorrect key: {said}"}}, status=401)
        if "search" in request.path:
            row = {"title": said, "url": "http://pages.test/", "content": said}
            return web.json_response({"results": [row], "web": {"results": [{**row, "description": said}]}})
        return web.Response(text=said)

    return answer
