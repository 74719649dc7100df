"""The offline model's door: a request in, a reply out, as from any other model."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from drone.agent.model import Ask, Listener, Reply, WantedCall, spoken_blocks
from drone.models.offline import delegate, direct, hand_in
from drone.models.offline.conversation import Conversation, read
from drone.models.offline.explore import Step, next_step, read_again
from drone.models.offline.facts import BLOCKED, Facts
from drone.models.offline.focus import focus_of, is_about_code, is_greeting
from drone.models.offline.results import facts_of
from drone.models.offline.speech import cut_to, say, tokens_asked, tokens_of
from drone.models.offline.survey import survey
from mcc.configuration.providers import KEY_NAMES, OFFLINE, any_key
from mcc.contracts.usage import Usage

_ADVICE = (
    f"To have it answered, configure a model: set {any_key(f'`{name}`' for name in KEY_NAMES)}, start "
    "Ollama, or write a table `[models.NAME]` into `mcc.toml` and name it with `--model NAME`. What I can do is read a "
    "workspace: ask me to explain a repository, list its files, read one of them or search for a text."
)
_WORKSPACE_TOOLS = frozenset({"list_files", "find_files", "search_text", "read_file"})


@dataclass(frozen=True, slots=True)
class Said:
    """What a reply is to be."""

    text: str
    calls: tuple[WantedCall, ...] = ()
    thinking: str = ""


class OfflineModel:
    """Rules in place of a language model: no network, no cost, the same reply to the same request.

    It sees what any model sees: system prompt, messages, tool schemas. `pace_seconds` is waited between two pieces of
    text (0: not at all), so that a person can follow.
    """

    def __init__(self, *, pace_seconds: float = 0.0) -> None:
        self._pace_seconds = pace_seconds

    @property
    def name(self) -> str:
        return OFFLINE

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Never fails. Usage is estimated at four characters a token; a reply beyond `max_output_tokens` is cut."""
        began = time.monotonic()
        said = replied_to(read(ask), ask.max_output_tokens)
        text, is_cut = cut_to(said.text, ask.max_output_tokens)
        calls = () if is_cut else said.calls
        first_token_ms = round((time.monotonic() - began) * 1000, 3)
        await say("thinking.delta", said.thinking, listener, self._pace_seconds)
        await say("model.delta", text, listener, self._pace_seconds)
        return Reply(
            blocks=spoken_blocks(text, calls, said.thinking),
            finish_reason="length" if is_cut else "tool_calls" if calls else "stop",
            usage=_usage(ask, said.thinking, text, calls),
            first_token_ms=first_token_ms,
            model=OFFLINE,
        )


def replied_to(conversation: Conversation, tokens: int | None = None) -> Said:
    """The whole policy: an errand, a delegation, an exploration, or an honest word. `tokens`: room for the reply."""
    if not conversation.must_finish and (calls := conversation.reading_on()):
        return _working(Step("A result was cut; I read the whole of it.", tuple(calls)))
    errand = direct.errand_of(conversation)
    if errand is not None:
        return _next(
            direct.step_of(conversation, errand), conversation, lambda: direct.facts_of(conversation, errand), tokens
        )
    has_workspace = bool(_WORKSPACE_TOOLS & conversation.tools.keys())
    if is_greeting(conversation.request):
        return _next(None, conversation, lambda: _unable(conversation), tokens)
    if conversation.helpers and (has_workspace or is_about_code(conversation.request)):
        return _next(delegate.step_of(conversation), conversation, lambda: delegate.facts_of(conversation), tokens)
    if has_workspace:
        return _explored(conversation, tokens)
    return _next(None, conversation, lambda: _unable(conversation), tokens)


def _explored(conversation: Conversation, tokens: int | None) -> Said:
    """What is known from the turns before is not looked up again; its files are read once more before they count."""
    whole = conversation.remembering()
    known, focus = survey(whole), focus_of(whole.request, whole.system)
    step = next_step(whole, known, focus) or read_again(conversation, known)
    return _next(step, conversation, lambda: facts_of(whole, known, focus), tokens)


def _next(step: Step | None, conversation: Conversation, facts: Callable[[], Facts], tokens: int | None) -> Said:
    """The work's next step, else the result: handed in where there is a tool for that, said where there is none."""
    if step is not None:
        return _working(step)
    result = facts()
    step = hand_in.step_of(conversation, result, tokens)
    return _working(step) if step else Said(result.report, thinking="This is enough." if conversation.done else "")


def _working(step: Step) -> Said:
    named = ", ".join(call.name for call in step.calls)
    return Said(step.saying, step.calls, thinking=f"By my rules next: {named}.")


def _unable(conversation: Conversation) -> Facts:
    """What the offline model says where it can do nothing."""
    said = _honest(conversation)
    return Facts(status=BLOCKED, summary=said.split("\n", 1)[0], report=said)


def _honest(conversation: Conversation) -> str:
    gist = " ".join(conversation.request.split())
    shown = gist if len(gist) <= 200 else gist[:200].rsplit(" ", 1)[0] + " …"
    words = len(conversation.request.split())
    lacking = "There is no workspace here that I could read."
    if conversation.tools:
        lacking = f"None of my rules fits this, with the tools I was given ({', '.join(sorted(conversation.tools))})."
    return (
        f"I am the offline model: fixed rules, no language model and no network. {lacking} So I cannot answer this:\n\n"
        f"> {shown}\n\n({words} words, {len(conversation.request)} characters.)\n\n{_ADVICE}"
    )


def _usage(ask: Ask, thinking: str, text: str, calls: tuple[WantedCall, ...]) -> Usage:
    called = sum(tokens_of(call.name + json.dumps(call.arguments, default=str)) for call in calls)
    return Usage(
        input_tokens=tokens_asked(ask),
        output_tokens=tokens_of(text) + tokens_of(thinking) + called,
        reasoning_tokens=tokens_of(thinking),
        model_calls=1,
        cost_usd=0.0,
    )
