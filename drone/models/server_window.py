"""The size of a model's context as its own server says it: one of open weights is started with the size it has."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import httpx

from drone.agent.model import ModelError
from drone.models.json_text import read, write
from drone.models.transport import Target, Wire
from drone.models.windows import believed

MOST_TIMES = 3
"""So many calls are accompanied by the question, until it is answered."""

SECONDS = 5.0
"""For one answer; once the reply is there, nobody waits longer for it than `AFTER_SECONDS`."""

AFTER_SECONDS = 0.5
MOST_BYTES = 4 * 1024 * 1024

Reading: TypeAlias = Callable[[object, str], int | None]
"""Takes the tokens of the model of this name out of a server's answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """`path` below the address of the form, or from the root of the server when it begins with a slash; {model} there
    is the model's name. `posted`: it is sent in the body instead."""

    path: str
    read: Reading
    posted: bool = False


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


def _listed(*fields: str) -> Reading:
    """Reads it from a list of models, of which one has this name; else from the only one in it."""

    def tokens(told: object, model: str) -> int | None:
        rows = [row for row in _rows(told) if isinstance(row, Mapping)]
        own = [row for row in rows if any(_same(row.get(name), model) for name in ("id", "name", "model"))]
        found = own or (rows if len(rows) == 1 else [])
        return next((size for row in found for field in fields if (size := _number(row.get(field)))), None)

    return tokens


def _rows(told: object) -> Iterator[object]:
    for name in ("data", "models"):
        rows = told.get(name) if isinstance(told, Mapping) else None
        yield from rows if isinstance(rows, list) else ()


def _same(name: object, model: str) -> bool:
    return isinstance(name, str) and name.removesuffix(":latest") == model.removesuffix(":latest")


def _of_a_slot(told: object, model: str) -> int | None:
    settings = told.get("default_generation_settings") if isinstance(told, Mapping) else None
    return _number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


def _of_a_model_file(told: object, model: str) -> int | None:
    """Parameters of a model file stand one in a line: a name, then its value."""
    text = told.get("parameters") if isinstance(told, Mapping) else None
    lines = text.splitlines() if isinstance(text, str) else ()
    values = [line.split()[-1] for line in lines if line.split()[:1] == ["num_ctx"]]
    return int(values[-1]) if values else None


def _number(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) else None


ELSEWHERE = (Question("models", _listed("max_model_len", "context_length", "context_window")),)
"""Of a server that nothing is known of but that it speaks chat completions."""

QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    "vllm": (Question("models", _listed("max_model_len")),),
    "llamacpp": (Question("/props?model={model}&autoload=false", _of_a_slot),),
    "lmstudio": (Question("/api/v0/models", _listed("loaded_context_length")),),
    "ollama": (
        Question("/api/ps", _listed("context_length")),
        Question("/api/show", _of_a_model_file, posted=True),
    ),
}
"""By the provider's row. What a model could take in does not count, but what its server gives it."""
