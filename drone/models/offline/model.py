"""The offline model as a `Model`: a request in, a reply out."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drone.agent.ports.journal import DeltaKind
from drone.agent.ports.model import NOT_DONE, Ask, Listener, Reply, WantedCall, spoken_blocks
from drone.models.offline import delegate, submission
from drone.models.offline.conversation import Conversation, read
from drone.models.offline.explore import Step, next_step, read_again
from drone.models.offline.facts import BLOCKED, Facts, facts_of, tool_request_facts, tool_request_step
from drone.models.offline.node_task import node_task
from drone.models.offline.node_work import node_step
from drone.models.offline.request import Focus, focus_of, is_greeting, named_path, terms_of, tool_request_of
from drone.models.offline.survey import survey
from mcc.configuration.providers import KEY_NAMES, OFFLINE, any_key
from mcc.contracts.usage import Usage
from mcc.rules.patterns import Pattern

CHARACTERS_PER_TOKEN = 4
_PIECE = Pattern(r"\s*(?:\S+\s*){1,4}|\s+")

_SELF = "I am the offline model: fixed rules, no language model and no network."
_ADVICE = (
    f"To have a language model do it: set {any_key(f'`{name}`' for name in KEY_NAMES)}, start Ollama, or write a table "
    "`[models.NAME]` into `mcc.toml` and name it with `--model NAME`."
)
_WORKSPACE_TOOLS = frozenset({"list_files", "find_files", "search_text", "read_file"})
_REFUSAL = "This was not done."
_OUT_OF_REPAIRS = f"{_REFUSAL} I tried several ways, and none of them keeps to all rules."
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """The reply to give. `not_done`: it says that no rule fits the request."""

    text: str
    calls: tuple[WantedCall, ...] = ()
    thinking: str = ""
    not_done: bool = False

    @property
    def finish_reason(self) -> str:
        return NOT_DONE if self.not_done else "tool_calls" if self.calls else "stop"


class OfflineModel:
    """Rules in place of a language model: no network, no cost, the same reply to the same request.

    It sees what any model sees: system prompt, messages, tool schemas. `pace_seconds`: the wait between two pieces of
    text (0: none), so that a person can follow.
    """

    def __init__(self, *, pace_seconds: float = 0.0) -> None:
        self._pace_seconds = pace_seconds

    @property
    def name(self) -> str:
        return OFFLINE

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Never fails and uses no tokens. A reply longer than four characters per token of `max_output_tokens` is
        cut."""
        began = time.monotonic()
        reply = plan_for(read(ask), ask.max_output_tokens)
        text, is_cut = shortened_to(reply.text, ask.max_output_tokens)
        calls = () if is_cut else reply.calls
        first_token_ms = round((time.monotonic() - began) * 1000, 3)
        await stream("thinking.delta", reply.thinking, listener, self._pace_seconds)
        await stream("model.delta", text, listener, self._pace_seconds)
        return Reply(
            blocks=spoken_blocks(text, calls, reply.thinking),
            finish_reason="length" if is_cut and not reply.not_done else reply.finish_reason,
            usage=Usage(model_calls=1, cost_usd=0.0),
            first_token_ms=first_token_ms,
            model=OFFLINE,
        )


def plan_for(conversation: Conversation, tokens: int | None = None) -> ReplyPlan:
    """The whole policy: single-tool requests, delegation, exploration, or a refusal. `tokens`: room for the reply."""
    if not conversation.must_finish and (calls := conversation.calls_for_the_rest()):
        return _step_plan(Step("A result was cut; I read the whole of it.", tuple(calls)))
    if (task := node_task(conversation)) is not None:
        step = node_step(conversation, task)
        return ReplyPlan(_OUT_OF_REPAIRS, not_done=True) if step is None else _step_plan(step)
    if is_greeting(conversation.request):
        return ReplyPlan("\n\n".join((_SELF, *_offered(conversation), _ADVICE)))
    errand = tool_request_of(conversation.request)
    if errand is not None and errand.tool in conversation.tools:
        return _next_plan(
            tool_request_step(conversation, errand),
            conversation,
            lambda: tool_request_facts(conversation, errand),
            tokens,
        )
    whole = conversation.with_earlier_turns()
    focus = focus_of(whole.request, whole.system)
    if focus is None:
        return ReplyPlan(_refusal(conversation), not_done=True)
    if conversation.helpers and not focus.terms:
        return _next_plan(delegate.step_of(conversation), conversation, lambda: delegate.facts_of(conversation), tokens)
    if _WORKSPACE_TOOLS & conversation.tools.keys():
        return _exploration_plan(conversation, whole, focus, tokens)
    return ReplyPlan(_refusal(conversation), not_done=True)


def _exploration_plan(conversation: Conversation, whole: Conversation, focus: Focus, tokens: int | None) -> ReplyPlan:
    """Results of earlier turns are reused; their files are read once more before the report."""
    known = survey(whole)
    step = next_step(whole, known, focus) or read_again(conversation, known)
    return _next_plan(step, conversation, lambda: facts_of(whole, known, focus), tokens)


def _next_plan(
    step: Step | None, conversation: Conversation, facts: Callable[[], Facts], tokens: int | None
) -> ReplyPlan:
    """The next step of the work, else the result: submitted if there is a tool for that, else as text."""
    if step is not None:
        return _step_plan(step)
    result = facts()
    step = submission.step_of(conversation, result, tokens)
    if step is not None:
        return _step_plan(step)
    if result.status == BLOCKED:
        return ReplyPlan(f"{_REFUSAL}\n\n{result.report}", not_done=True)
    return ReplyPlan(result.report, thinking="This is enough." if conversation.done else "")


def _step_plan(step: Step) -> ReplyPlan:
    named = ", ".join(call.name for call in step.calls)
    return ReplyPlan(step.saying, step.calls, thinking=f"By my rules next: {named}.")


def _refusal(conversation: Conversation) -> str:
    """The refusal, then what can be done here, then who could do it."""
    gist = " ".join(conversation.request.split())
    shown = gist if len(gist) <= _SHOWN else gist[:_SHOWN].rsplit(" ", 1)[0] + " …"
    opening = f"{_REFUSAL} {_SELF} None of the rules fits this:"
    return "\n\n".join((opening, f"> {shown}", *_offered(conversation), _ADVICE))


def _offered(conversation: Conversation) -> Iterator[str]:
    """Requests that work here, in words to use; the first is close to the actual request."""
    if not _WORKSPACE_TOOLS & conversation.tools.keys():
        yield "I can read a workspace, and there is none here."
        return
    offers = ["`Explain this repository`: what it is, how its parts depend on each other, what to read first"]
    offers += ["`Review this code`: what is unfinished, silenced or left over in it"]
    if path := named_path(conversation.request):
        offers.insert(0, f"`Read {path}`")
    elif terms := terms_of(conversation.request, 1):
        offers.insert(0, f"`Search for {terms[0]}`: the lines that mention it")
    yield "\n".join(("What I can do in this workspace:\n", *(f"- {offer}" for offer in offers)))


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces of a few words, which join to the same text."""
    return (text[found.start() : found.end()] for found in _PIECE.finditer(text))


async def stream(kind: DeltaKind, text: str, listener: Listener, pace_seconds: float) -> None:
    """Stream `text` to the listener, waiting `pace_seconds` between pieces (0: not at all)."""
    for piece in pieces(text):
        listener.delta(kind, piece)
        if pace_seconds > 0:
            await asyncio.sleep(pace_seconds)


def shortened_to(text: str, tokens: int | None) -> tuple[str, bool]:
    """`text` within `tokens`, and whether it was cut."""
    if tokens is None or len(text) <= tokens * CHARACTERS_PER_TOKEN:
        return text, False
    return text[: tokens * CHARACTERS_PER_TOKEN], True
