"""The server: one fake provider on a port of the loopback."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from tests.fake_provider.behaviours import Behaviour, now
from tests.fake_provider.play import Heard, Memory, Playing, Refused, conversation

KEY = "FAKE_PROVIDER_KEY"
ROUND = re.compile(rb"Round (\d{1,4}): I look on")
SUM_UP = b"## Goal / ## Findings / ## Done / ## Open"


@dataclass
class FakeProvider:
    """Answers requests and keeps them: `asked` are bodies that were taken, `refusals` what was refused, in words."""

    behaviour: Behaviour
    play: Playing = field(default_factory=lambda: conversation(6))
    told: Callable[[str], None] = lambda line: None
    asked: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    _since: float | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        form = self.behaviour.form
        try:
            return await self._reply(request, raw)
        except Refused as refused:
            self.refusals.append(str(refused))
            self.told(f"{refused.status}  {refused}")
            return web.json_response(form.error(refused), status=refused.status)

    async def tell(self, request: web.Request) -> web.Response:
        """What the server says of itself."""
        behaviour = self.behaviour
        if not behaviour.window or request.path != f"{behaviour.form.prefix}/models":
            raise web.HTTPNotFound
        return web.json_response({"data": [{"id": behaviour.model, "max_model_len": behaviour.window}]})

    async def _reply(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        behaviour, memory = self.behaviour, self.memory
        form = behaviour.form
        if not re.fullmatch(getattr(form.path, "pattern", ""), request.path):
            raise Refused(404, f"Invalid URL (POST {request.path})")
        form.authorize({name.lower(): value for name, value in request.headers.items()}, request.query)
        body = json.loads(raw)
        heard = form.hear(body) if self._understood(body) else Heard({}, 0, 0)
        rounds = max(map(int, ROUND.findall(raw)), default=0)
        heard = replace(heard, rounds=rounds, sums_up=raw.rfind(SUM_UP) > raw.rfind(b"I look on"))
        number, memory.requests = memory.requests, memory.requests + 1
        if behaviour.obstacle is not None:
            self._since = now() if self._since is None else self._since
            behaviour.obstacle(number, heard, now() - self._since)
        self.asked.append(raw)
        memory.turns += 1
        say = self.play(heard)
        say = behaviour.twist(number, say) if behaviour.twist else say
        cached = memory.cached_tokens(raw)
        self.told(f"200  {heard.tokens} tokens, {heard.replies} replies before: {[call.name for call in say.calls]}")
        await asyncio.sleep(behaviour.seconds)
        if not (body.get("stream") or "stream" in request.path):
            return web.json_response(form.whole(say, heard, memory, cached))
        events = list(form.stream(say, heard, memory, cached))
        if behaviour.broken is not None and number == 0:
            events = [*events[: len(events) // 2], form.error_in_stream(behaviour.broken)]
        return await _streamed(request, events, behaviour.event_seconds)

    def _understood(self, body: object) -> bool:
        """Raises `Refused`."""
        if not isinstance(body, dict):
            raise Refused(400, "We could not parse the JSON body of your request.")
        self.behaviour.form.check(body, self.memory)
        return True


async def _streamed(request: web.Request, events: list[bytes], seconds: float) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for event in events:
        await asyncio.sleep(seconds)
        await response.write(event)
    await response.write_eof()
    return response


@asynccontextmanager
async def served(provider: FakeProvider, port: int = 0) -> AsyncIterator[str]:
    """The address at which it answers, with the path that its form begins with."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{path:.*}", provider.answer)
    app.router.add_get("/{path:.*}", provider.tell)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        address = runner.addresses[0]
        behaviour = provider.behaviour
        yield f"http://127.0.0.1:{address[1]}{behaviour.form.prefix}{behaviour.query}"
    finally:
        await runner.cleanup()


def configuration(behaviour: Behaviour, address: str, alias: str = "fake") -> str:
    """The lines of `mcc.toml` that make `--model fake` of it."""
    lines = [
        f"[models.{alias}]",
        f'provider = "{behaviour.provider}"',
        f'base_url = "{address}"',
        f'model = "{behaviour.model}"',
        f'api_key_env = "{KEY}"',
    ]
    if behaviour.api:
        lines.append(f'api = "{behaviour.api}"')
    return "\n".join(lines) + "\n"
