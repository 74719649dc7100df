"""The context size of a self-hosted model, asked from its server: open weights can be started with any size."""

import asyncio
from dataclasses import replace
from urllib.parse import quote, urlsplit

import httpx

from drone.agent.model import ModelError
from drone.models.body import body_of
from drone.models.dialects.window_questions import Question
from drone.models.failures import believed
from drone.models.json_text import read, write
from drone.models.transport import Target, Wire

MOST_TIMES = 3
"""Calls that carry the question along before the server is given up on."""

SECONDS = 5.0
"""Time limit for one answer. After the reply has ended, the call waits for it only `AFTER_SECONDS` longer."""

AFTER_SECONDS = 0.5
MOST_BYTES = 4 * 1024 * 1024


class ServerWindow:
    """The context size of one model. The server is asked while a call is running whose answer has begun, since by then
    the model is loaded."""

    def __init__(self, questions: tuple[Question, ...], base_url: str, model: str, wire: Wire) -> None:
        self.tokens: int | None = None
        self._questions = questions
        self._base_url = base_url
        self._model = model
        self._wire = wire
        self._times = MOST_TIMES if questions else 0
        self._under_way = False

    def learning(self, target: Target) -> "Learning":
        """A context manager around one call. When the call reports that its answer has `begun`, a server that has not
        told its size yet is asked, with the headers of `target`. At the end of the call the answer is awaited only
        briefly."""
        return Learning(self, target)

    def begun(self, target: Target) -> asyncio.Task[None] | None:
        """Start asking, unless the size is known, a question is under way, or all tries are used up."""
        if not self._times or self.tokens is not None or self._under_way:
            return None
        self._times -= 1
        self._under_way = True
        return asyncio.create_task(self._ask(target))

    async def over(self, asking: asyncio.Task[None], seconds: float) -> None:
        """Wait up to `seconds` for the answer, then cancel the question."""
        try:
            if seconds:
                await asyncio.wait([asking], timeout=seconds)
        finally:
            self._under_way = False
            asking.cancel()
            await asyncio.wait([asking])

    async def _ask(self, target: Target) -> None:
        for question in self._questions:
            try:
                async with asyncio.timeout(SECONDS):
                    self.tokens = believed(question.read(await self._answer(question, target), self._model))
            except (ModelError, TimeoutError, ValueError, RecursionError):
                continue
            if self.tokens is not None:
                return

    async def _answer(self, question: Question, target: Target) -> object:
        parts = urlsplit(self._base_url)
        path = question.path.format(model=quote(self._model, safe=""))
        root = f"{parts.scheme}://{parts.netloc}"
        url = f"{root}{path}" if path.startswith("/") else f"{root}{parts.path.rstrip('/')}/{path}"
        target = replace(target, url=httpx.URL(url))
        body = body_of(lambda: iter((write({"model": self._model}),))) if question.posted else None
        answer = await (self._wire.post(target, body) if body else self._wire.get(target))
        try:
            raw = await answer.at_most(MOST_BYTES) if answer.status == 200 else b""
        finally:
            await answer.close()
        return read(raw)


class Learning:
    """One call's share of `ServerWindow.learning`; for nearly all calls it does nothing."""

    __slots__ = ("_asking", "_target", "_window")

    def __init__(self, window: ServerWindow, target: Target) -> None:
        self._window = window
        self._target = target
        self._asking: asyncio.Task[None] | None = None

    def begun(self) -> None:
        """Report that the answer has begun."""
        self._asking = self._window.begun(self._target)

    async def __aenter__(self) -> "Learning":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._asking is not None:
            await self._window.over(self._asking, AFTER_SECONDS if kind is None else 0.0)
