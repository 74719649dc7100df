"""The size of a model's context as its own server says it: one of open weights is started with the size it has."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import quote, urlsplit

import httpx

from drone.agent.model import ModelError
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

    @asynccontextmanager
    async def learning(self, target: Target) -> AsyncIterator[Callable[[], None]]:
        """Around a call, which calls what it is given as soon as its answer has begun: a server that has not told yet
        is asked then, with the headers of `target`. Its answer is waited for only briefly at the end."""
        asking: list[asyncio.Task[None]] = []
        try:
            yield lambda: asking.extend(self._begun(target))
            if asking:
                await asyncio.wait(asking, timeout=AFTER_SECONDS)
        finally:
            for task in asking:
                self._under_way = False
                task.cancel()
                await asyncio.wait([task])

    def _begun(self, target: Target) -> Iterator[asyncio.Task[None]]:
        if self._times and self.tokens is None and not self._under_way:
            self._times -= 1
            self._under_way = True
            yield asyncio.create_task(self._ask(target))

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
        body = write({"model": self._model}) if question.posted else None
        answer = await self._wire.post(target, body, SECONDS) if body else await self._wire.get(target, SECONDS)
        try:
            raw = await answer.at_most(MOST_BYTES) if answer.status == 200 else b""
        finally:
            await answer.close()
        return read(raw)
