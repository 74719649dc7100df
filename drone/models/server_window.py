"""The context size of a self-hosted model, asked from its server: open weights can be started with any size."""

import asyncio
from dataclasses import replace
from urllib.parse import quote, urlsplit

import httpx

from drone.agent.ports.model import ModelError
from drone.models.body import body_of
from drone.models.json_text import read, write
from drone.models.overflow import plausible_window
from drone.models.transport import ModelWire, Target
from drone.models.window_questions import WindowQuestion

MOST_TRIES = 3
"""Calls that carry the question along before the server is given up on."""

ANSWER_SECONDS = 5.0
"""Time limit for one answer. After the reply has ended, the call waits for it only `EXTRA_SECONDS` longer."""

EXTRA_SECONDS = 0.5
MOST_BYTES = 4 * 1024 * 1024


class ServerWindow:
    """The context size of one model. The server is asked while a call is running whose answer has begun, since by then
    the model is loaded."""

    def __init__(self, questions: tuple[WindowQuestion, ...], base_url: str, model: str, wire: ModelWire) -> None:
        self.tokens: int | None = None
        self._questions = questions
        self._base_url = base_url
        self._model = model
        self._wire = wire
        self._tries_left = MOST_TRIES if questions else 0
        self._under_way = False

    def during_call(self, target: Target) -> "WindowQuery":
        """A context manager around one call. When the call reports `answer_begun`, a server that has not
        told its size yet is asked, with the headers of `target`. At the end of the call the answer is awaited only
        briefly."""
        return WindowQuery(self, target)

    def answer_begun(self, target: Target) -> asyncio.Task[None] | None:
        """Start asking, unless the size is known, a question is under way, or all tries are used up."""
        if not self._tries_left or self.tokens is not None or self._under_way:
            return None
        self._tries_left -= 1
        self._under_way = True
        return asyncio.create_task(self._ask(target))

    async def finish(self, query: asyncio.Task[None], seconds: float) -> None:
        """Wait up to `seconds` for the answer, then cancel the question."""
        try:
            if seconds:
                await asyncio.wait([query], timeout=seconds)
        finally:
            self._under_way = False
            query.cancel()
            await asyncio.wait([query])

    async def _ask(self, target: Target) -> None:
        for question in self._questions:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self.tokens = plausible_window(question.read(await self._answer(question, target), self._model))
            except (ModelError, TimeoutError, ValueError, RecursionError):
                continue
            if self.tokens is not None:
                return

    async def _answer(self, question: WindowQuestion, target: Target) -> object:
        parts = urlsplit(self._base_url)
        path = question.path.format(model=quote(self._model, safe=""))
        root = f"{parts.scheme}://{parts.netloc}"
        url = f"{root}{path}" if path.startswith("/") else f"{root}{parts.path.rstrip('/')}/{path}"
        target = replace(target, url=httpx.URL(url))
        body = body_of(lambda: iter((write({"model": self._model}),))) if question.posted else None
        answer = await (self._wire.post(target, body) if body else self._wire.get(target))
        try:
            # An empty body is no JSON either: `read` raises the ValueError that leads to the next question.
            raw = await answer.at_most(MOST_BYTES) if answer.status == 200 else b""
        finally:
            await answer.close()
        return read(raw)


class WindowQuery:
    """One call's share of `ServerWindow.during_call`; for nearly all calls it does nothing."""

    __slots__ = ("_query", "_target", "_window")

    def __init__(self, window: ServerWindow, target: Target) -> None:
        self._window = window
        self._target = target
        self._query: asyncio.Task[None] | None = None

    def answer_begun(self) -> None:
        """Report that the answer has begun."""
        self._query = self._window.answer_begun(self._target)

    async def __aenter__(self) -> "WindowQuery":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._query is not None:
            await self._window.finish(self._query, EXTRA_SECONDS if kind is None else 0.0)
