"""Ends of replies: which replies without tool calls are an answer, and what to say to a model that was not done."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from drone.agent.report import NoAnswer, Refused
from drone.agent.transcript import NUDGE, VALIDATE
from mcc.contracts.blocks import refusal_in
from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.rules.patterns import Pattern

CONTINUED = 8
"""Replies in a row that reached their maximum length and are gone on with."""

ASKED_AGAIN = 2
"""Replies in a row without a word after which the model is asked for its answer."""

WORDS = 1_000
"""Characters of a refusal's words that are told."""

LONGEST_ANNOUNCEMENT = 400
"""Characters of a reply that may be no more than the announcement of the next step."""

LONGEST_LEAK = 20_000
"""Characters of a reply that may be one tool call written as JSON."""

_LEAKED = (
    "<tool_call",
    "<function=",
    "<function_call",
    "<invoke name=",
    "<|tool_call",
    "<|tool▁call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
)
_THINKING = ("<think>", "</think>", "<thinking>", "</thinking>")
_FENCES = ("```", "~~~")

_ANNOUNCED = Pattern(
    r"(?i)(^|[.!:\n]\s*)((now|next|first|then|so|ok|okay|alright|sure|great),?\s+)*"
    r"(let me|let's|i'll|i will|i'm going to|i am going to)( now| first| next| then| also| start by| begin by)*\s+"
    r"(read|look|check|search|open|examine|examining|reading|looking|inspect|explore|run|list|find|scan|investigate|"
    r"analy[sz]e|review|gather|fetch|call|use|dig|take a (closer )?look|go through|continue|proceed|start|begin)"
    r"\b[^.!?\n]{0,200}[.:…!]*\s*$"
)
"""The last sentence of a reply that only announces the next step."""

_CURLY = str.maketrans({"\u2019": "'"})


@dataclass(slots=True)
class Ends:
    """Of one run. Only `judge` and `spoken_to` change it.

    `text` is what the run's last reply says, together with the replies that it goes on from.
    """

    text: str = ""
    _cut: int = 0
    _silent: int = 0
    _before: str = ""
    _sent_back: set[str] = field(default_factory=set)

    def judge(self, reply: ModelReplied, tools: Collection[str], finish_tools: Collection[str]) -> AgentStep | None:
        """A nudge when the reply is no end of the work, None when it has tool calls or may be the answer.

        `tools` are all that the agent has, `finish_tools` those of its gate. Raises `Refused`, `NoAnswer`.
        """
        said, self._before = self._before + reply.text, ""
        self.text = said or self.text
        if reply.tool_calls:
            self._cut = self._silent = 0
            return None
        if reply.finish_reason in ("refusal", "content_filter"):
            raise Refused(_refusal(reply))
        if not reply.text.strip():
            return None if finish_tools else self._empty(reply)
        self._silent = 0
        if reply.finish_reason == "length":
            return self._cut_off(said, finish_tools)
        self._cut = 0
        return self._not_done(reply, frozenset(tools))

    def spoken_to(self) -> None:
        """Somebody wrote to the agent before it was asked to go on: it begins a new answer."""
        self._cut = self._silent = 0
        self._before = ""

    def _empty(self, reply: ModelReplied) -> AgentStep:
        self._silent += 1
        thought = "only thinking" if reply.thinking.strip() else "nothing"
        if self._silent > ASKED_AGAIN:
            raise NoAnswer(f"the model gave no answer: {self._silent} replies in a row had {thought} in them")
        if reply.thinking.strip():
            return _nudge("Your last reply was empty but for your thinking. Give your answer in words, or call a tool.")
        return _nudge("Your last reply was empty. Go on with a tool call, or give your answer in words.")

    def _cut_off(self, said: str, finish_tools: Collection[str]) -> AgentStep | None:
        self._cut += 1
        if self._cut > CONTINUED:
            raise NoAnswer(f"the model did not come to an end: {self._cut} replies in a row reached their full length")
        if finish_tools:
            hand_in = " or ".join(sorted(set(finish_tools) - {VALIDATE}))
            return _nudge(
                "Your last reply reached its maximum length before you had handed in your result. Leave the words out "
                f"and hand it in with {hand_in}."
            )
        self._before = said
        return _nudge(
            "Your last reply reached its maximum length and was cut off. Go on exactly where it ended: do not repeat "
            "anything and do not begin again. What you write now is put behind it."
        )

    def _not_done(self, reply: ModelReplied, tools: frozenset[str]) -> AgentStep | None:
        """The nudge for what is no answer although it says something; each kind of it once in a run."""
        for kind, found, said in (
            ("leaked", tools and _is_leaked(reply.text, tools), _CALL_AS_TEXT),
            ("thinking", _begins_line(reply.text, _THINKING), _THOUGHT_ALOUD),
            ("announced", tools and _is_announced(reply), _ANNOUNCED_ONLY),
        ):
            if found and kind not in self._sent_back:
                self._sent_back.add(kind)
                return _nudge(said)
        return None


_CALL_AS_TEXT = (
    "Your last reply has a tool call written out as text. Nothing ran: calls in the text are not seen. Make the call "
    "with the tool interface, or give your answer in words."
)
_THOUGHT_ALOUD = (
    "Your last reply has your thinking in its text. Give your answer again without it, and without any think tags."
)
_ANNOUNCED_ONLY = (
    "Your last reply announces the next step and calls no tool, so nothing happened. Make the call now; or, if you are "
    "done, give your whole answer."
)


def _nudge(said: str) -> AgentStep:
    return AgentStep(name=NUDGE, message=said)


def _refusal(reply: ModelReplied) -> str:
    words = " ".join((refusal_in(reply.blocks) or reply.text).split())[:WORDS].rstrip(".")
    if reply.finish_reason == "content_filter":
        return "the provider's content filter ended the reply" + (f" after: {words}" if words else "")
    return f"the model refused: {words}" if words else "the model refused and did not say why"


def _prose(text: str) -> Iterator[str]:
    """The lines that stand in no fenced block of code."""
    fence = ""
    for line in text.splitlines():
        begin = line.lstrip()
        if fence:
            fence = "" if begin.startswith(fence) else fence
        elif begin.startswith(_FENCES):
            fence = begin[:3]
        else:
            yield begin


def _begins_line(text: str, marks: tuple[str, ...]) -> bool:
    return any(mark in text for mark in marks) and any(line.startswith(marks) for line in _prose(text))


def _is_leaked(text: str, tools: frozenset[str]) -> bool:
    if _begins_line(text, _LEAKED):
        return True
    bare = text.strip()
    if not (bare.startswith("{") and bare.endswith("}") and len(bare) <= LONGEST_LEAK):
        return False
    try:
        said = json.loads(bare)
    except (ValueError, RecursionError):
        return False
    named = isinstance(said, dict) and said.get("name")
    return isinstance(named, str) and named in tools and ("arguments" in said or "parameters" in said)


def _is_announced(reply: ModelReplied) -> bool:
    """Whether calls were to follow and none does: its provider says so, or it is short and ends in an announcement."""
    if reply.finish_reason == "tool_calls":
        return True
    text = reply.text.strip().translate(_CURLY)
    return len(text) <= LONGEST_ANNOUNCEMENT and _ANNOUNCED.search(text) is not None
