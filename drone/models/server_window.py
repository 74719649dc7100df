"""The size of a model's context as its own server says it: one of open weights is started with the size it has."""

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
"""So many calls are accompanied by the question, until it is answered."""

SECONDS = 5.0
"""For one answer; once the reply is there, nobody waits longer for it than `AFTER_SECONDS`."""

AFTER_SECONDS = 0.5
MOST_BYTES = 4 * 1024 * 1024


class ServerWindow:
    """Of one model. Asked beside calls whose answers have begun: whoever answers has loaded the model."""

    def __init__(self, questions: tuple[Question, ...], base_url: str, model: str, wire: Wire) -> None:
        self.tokens: int | None = None
        self._questions = questions
        self._base_url = base_url
        self._model = model
        self._wire = wire
        self._times = MOST_TIMES if questions else 0
        self._under_way = False

    def learning(self, target: Target) -> "Learning":
        """Around a call, which says when its answer has `begun`: a server that has not told yet is asked then, with the
        headers of `target`. Its answer is waited for only briefly at the end."""
        return Learning(self, target)

    def begun(self, target: Target) -> asyncio.Task[None] | None:
        """Ask now, unless that is not to be."""
        if not self._times or self.tokens is not None or self._under_way:
            return None
        self._times -= 1
        self._under_way = True
        return asyncio.create_task(self._ask(target))

    async def over(self, asking: asyncio.Task[None], seconds: float) -> None:
        """Wait for an answer that long, and no longer."""
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
    """`ServerWindow.learning`, of one call; nearly always it does nothing."""

    __slots__ = ("_asking", "_target", "_window")

    def __init__(self, window: ServerWindow, target: Target) -> None:
        self._window = window
        self._target = target
        self._asking: asyncio.Task[None] | None = None

    def begun(self) -> None:
        """The answer has begun."""
        self._asking = self._window.begun(self._target)

    async def __aenter__(self) -> "Learning":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._asking is not None:
            await self._window.over(self._asking, AFTER_SECONDS if kind is None else 0.0)
