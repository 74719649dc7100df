"""Model checks: one small call to each model, and the findings."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from drone.agent.ports.journal import DeltaKind, GrowingCall
from drone.agent.ports.model import Ask, Bill, ModelError, Reply, context_tokens
from drone.agent.ports.report import describe_or_raise
from drone.models.guards import UnknownModel
from drone.models.registry import Models, Unusable
from drone.models.remote import ModelEndpoint, Remote
from mcc.contracts.answers import CHECK_SECONDS, CONCURRENT_CHECKS, ModelCheck
from mcc.contracts.blocks import RedactedBlock, ThinkingBlock
from mcc.contracts.usage import Usage
from mcc.redaction import Redactor
from mcc.transcript.messages import ToolSpec, UserMessage

OUTPUT_TOKENS = 2_048
THINKING_TOKENS = 16_384
"""Output tokens that leave room for a tool call after some thinking, or after as much thinking as the model is
configured for."""

READY = ToolSpec(
    "report_ready",
    "Says that you can be worked with.",
    {
        "type": "object",
        "properties": {"ready": {"type": "boolean"}},
        "required": ["ready"],
        "additionalProperties": False,
    },
)
SYSTEM = "This is a check whether you can be reached. Do what the message says and nothing more."
QUESTION = "Call the tool report_ready once, with ready set to true."

Tell = Callable[[ModelCheck], Awaitable[None]]


class CheckNotes:
    """A listener that keeps what it hears as sentences, and the cost of tries that brought no reply."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.bill = Bill()

    def delta(self, kind: DeltaKind, text: str, call: GrowingCall | None = None) -> None:
        pass

    async def retried(self, error: str, wait_seconds: float) -> None:
        self.sentences.append(error)

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.sentences.append(error)

    async def not_sent(self, what: str) -> None:
        self.sentences.append(what)

    def billed(self, usage: Usage) -> None:
        self.bill.add(usage)

    async def go_ahead(self) -> None:
        pass


async def check_all(
    models: Models, names: Iterable[str], redactor: Redactor, tell: Tell, seconds: float = CHECK_SECONDS
) -> None:
    """Check these models concurrently, `CONCURRENT_CHECKS` at once, and pass each result to `tell` as soon as it is
    known."""
    room = asyncio.Semaphore(CONCURRENT_CHECKS)

    async def one(name: str) -> None:
        async with room:
            await tell(redactor.model(await check(models, name, seconds)))

    async with asyncio.TaskGroup() as group:
        for name in dict.fromkeys(names):
            group.create_task(one(name))


async def check(
    models: Models, name: str, seconds: float = CHECK_SECONDS, clock: Callable[[], float] = time.monotonic
) -> ModelCheck:
    """Ask the model once, without its retries and fallbacks. An error becomes the `problem` of the result."""
    try:
        model = models.unwrapped(name)
    except UnknownModel as error:
        return ModelCheck(name=name, problem=str(error))
    if isinstance(model, Unusable):
        bare = ModelCheck(name=name, model=model.name, problem=model.problem)
        return bare.model_copy(update={"key": "missing"}) if model.lacks_key else bare
    if not isinstance(model, Remote):
        note = "It answers inside the drone, so nothing was asked."
        return ModelCheck(name=name, model=model.name, key="none", notes=(note,))
    notes, began = CheckNotes(), clock()
    try:
        reply = await model.ask(_question(model.endpoint, seconds), notes)
    except ModelError as error:
        outcome = _refused(model.endpoint, error, notes)
    except Exception as error:  # one broken dialect must not suppress the other rows
        outcome = {"problem": f"The model {model.name} broke: {describe_or_raise(error)}"}
    else:
        outcome = _answered(model.endpoint, reply, notes)
    known = {"name": name, "model": model.name, "seconds": round(clock() - began, 3)}
    return ModelCheck.model_validate({**known, **_window(model), **outcome, "notes": tuple(notes.sentences)})


def _question(endpoint: ModelEndpoint, seconds: float) -> Ask:
    return endpoint.completed(
        Ask(SYSTEM, (UserMessage(QUESTION),), (READY,), max_output_tokens=_room(endpoint), seconds=seconds)
    )


def _room(endpoint: ModelEndpoint) -> int:
    return OUTPUT_TOKENS if endpoint.thinking in ("inherit", "off") else THINKING_TOKENS


def _refused(endpoint: ModelEndpoint, error: ModelError, notes: CheckNotes) -> dict[str, object]:
    key = "refused" if endpoint.has_key else "missing"
    return {"problem": str(error), "usage": notes.bill.usage, "key": key if error.status == 401 else "unknown"}


def _answered(endpoint: ModelEndpoint, reply: Reply, notes: CheckNotes) -> dict[str, object]:
    used = any(call.name == READY.name for call in reply.tool_calls)
    usage = notes.bill.with_reply(reply.usage)
    cut = reply.finish_reason == "length" and not used
    if cut:
        notes.sentences.append(f"It used up {_room(endpoint):,} tokens of output before it called the tool.")
    elif not used:
        notes.sentences.append("It did not call the tool that it was offered: agents of it would do no work.")
    thought = any(isinstance(block, ThinkingBlock | RedactedBlock) for block in reply.blocks)
    return {
        "key": "accepted" if endpoint.has_key else "none",
        "tools": None if cut else used,
        "streaming": reply.streamed,
        "thinking": thought or usage.reasoning_tokens > 0,
        "caching": _caching(endpoint, reply),
        "first_token_ms": reply.first_token_ms,
        "usage": usage,
    }


def _caching(endpoint: ModelEndpoint, reply: Reply) -> str | None:
    """Providers do not cache a prompt as short as this one, so usually only the price list can answer."""
    if reply.usage.cached_input_tokens or reply.usage.cache_write_tokens:
        return "seen"
    return "priced" if endpoint.price is not None and endpoint.price.cached is not None else None


def _window(model: Remote) -> dict[str, object]:
    endpoint, window = model.endpoint, context_tokens(model)
    if window is None:
        return {}
    known_from = "configuration" if window == endpoint.context_tokens else "table"
    from_server = window not in (endpoint.context_tokens, endpoint.known.context_tokens)
    return {"context_tokens": window, "window_from": "server" if from_server else known_from}
