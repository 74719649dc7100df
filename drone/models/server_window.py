"""The context size of a self-hosted model, asked from its server: open weights can be started with any size."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import httpx

from drone.agent.model import ModelError
from drone.models.body import body_of
from drone.models.failures import plausible_window
from drone.models.json_text import read, write
from drone.models.transport import Target, Wire

Reading: TypeAlias = Callable[[object, str], int | None]
"""Reads the context size in tokens of the named model from a server's answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """`path` is relative to the base_url, or to the server's root if it begins with a slash; {model} in it stands for
    the model's name. `posted`: the name is sent in the body instead."""

    path: str
    read: Reading
    posted: bool = False


def _from_list(*fields: str) -> Reading:
    """Reads the first of `fields` from the list entry with the model's name, else from the only entry."""

    def tokens(answer: object, model: str) -> int | None:
        rows = [row for row in _rows(answer) if isinstance(row, Mapping)]
        own = [row for row in rows if any(_same_model(row.get(name), model) for name in ("id", "name", "model"))]
        found = own or (rows if len(rows) == 1 else [])
        return next((size for row in found for field in fields if (size := _number(row.get(field)))), None)

    return tokens


def _rows(answer: object) -> Iterator[object]:
    for name in ("data", "models"):
        rows = answer.get(name) if isinstance(answer, Mapping) else None
        yield from rows if isinstance(rows, list) else ()


def _same_model(name: object, model: str) -> bool:
    return isinstance(name, str) and name.removesuffix(":latest") == model.removesuffix(":latest")


def _slot_size(answer: object, model: str) -> int | None:
    settings = answer.get("default_generation_settings") if isinstance(answer, Mapping) else None
    return _number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


def _model_file_size(answer: object, model: str) -> int | None:
    """A model file has one parameter per line: its name, then its value."""
    text = answer.get("parameters") if isinstance(answer, Mapping) else None
    lines = text.splitlines() if isinstance(text, str) else ()
    values = [line.split()[-1] for line in lines if line.split()[:1] == ["num_ctx"]]
    return int(values[-1]) if values else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


ELSEWHERE = (Question("models", _from_list("max_model_len", "context_length", "context_window")),)
"""For servers of which only the chat completions interface is known."""

QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    "vllm": (Question("models", _from_list("max_model_len")),),
    "llamacpp": (Question("/props?model={model}&autoload=false", _slot_size),),
    "lmstudio": (Question("/api/v0/models", _from_list("loaded_context_length")),),
    "ollama": (
        Question("/api/ps", _from_list("context_length")),
        Question("/api/show", _model_file_size, posted=True),
    ),
}
"""By provider. Only the size configured on the server counts, not what the model itself would support."""

MOST_TRIES = 3
"""Calls that carry the question along before the server is given up on."""

ANSWER_SECONDS = 5.0
"""Time limit for one answer. After the reply has ended, the call waits for it only `EXTRA_SECONDS` longer."""

EXTRA_SECONDS = 0.5
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

    async def _answer(self, question: Question, target: Target) -> object:
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
