"""Detects runs that make no progress and replies that are no answer; words the nudges that the model gets then."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drone.agent.ports.model import NOT_DONE
from drone.agent.ports.report import ModelRefused, NoAnswer, NoProgress, NotDone
from drone.agent.state.leaks import leak_in, missing_calls, missing_parser, missing_reasoning_parser
from mcc.contracts.blocks import ToolCall, refusal_in
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import AgentStep, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.rules.patterns import Pattern
from mcc.transcript.transcript import NUDGE, VALIDATE

MIN_REPEATED = 200
"""Fewest characters of text and thinking whose repetition counts; shorter replies may repeat while work proceeds ("Next
page.")."""

REMEMBERED = 256
"""Most refused calls remembered per run."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """After how many occurrences the model is nudged, and after how many the run is halted."""

    nudge: int
    halt: int

    def check(self, times: int, nudge: str, halt: str) -> str | None:
        """The nudge if it is due now, else None. Raises `NoProgress`."""
        if times >= self.halt:
            raise NoProgress(halt)
        return nudge if times == self.nudge else None


SAME_FAILURE = Ladder(2, 3)
"""The same call (tool and arguments) with the same error, round after round."""

REFUSED = Ladder(2, 3)
"""The same call denied, in any rounds; the nudge comes first, so that no run is halted without warning."""

SAME_OUTPUT = Ladder(3, 4)
"""The same call with the same output, in consecutive rounds without anything new; or the same long reply."""

ALL_FAILED = Ladder(4, 6)
"""Consecutive rounds in which every call failed."""


@dataclass(slots=True)
class _RepeatedCall:
    """A call, its result, and in how many consecutive rounds both were the same."""

    call: ToolCall
    done: ToolFinished
    rounds: int = 1

    @property
    def brings_news(self) -> bool:
        return self.rounds == 1 and not self.done.is_error


@dataclass(slots=True)
class RunProgress:
    """Watches one run. Counts rounds, not calls: a hundred bad calls in one reply are one bad round."""

    _last: list[_RepeatedCall] = field(default_factory=list)
    _refused: list[_RepeatedCall] = field(default_factory=list)
    _failed: int = 0
    _last_reply: ModelReplied | None = None
    _same_replies: int = 1

    def observe(
        self, watched: Sequence[tuple[ToolCall, ToolFinished]], reply: ModelReplied | None = None
    ) -> AgentStep | None:
        """Take in a round's calls with their results; returns a nudge for the model if one is due.

        The caller leaves out calls of finish tools: the gate counts its attempts itself. Raises `NoProgress`.
        """
        nudges: list[str] = []
        if seen := [self._with_last(call, done) for call, done in watched]:
            nudges.extend(nudge for nudge in self._repetitions(seen, reply) if nudge is not None)
        if reply is not None and reply.finish_reason == "length" and (cut := _cut_off(reply)):
            nudges.append(cut)
        said = "\n".join(dict.fromkeys(nudges))
        return AgentStep(name=NUDGE, message=said, in_results=True) if nudges else None

    def _with_last(self, call: ToolCall, done: ToolFinished) -> _RepeatedCall:
        """The call with its count of consecutive equal rounds.

        A command with a nonzero exit code is not counted: repeating it may be useful work, for example running a
        failing test, or polling a server that is not up yet.
        """
        if done.exit_code:
            return _RepeatedCall(call, done)
        for before in self._last:
            alike = unfenced(before.done.content) == unfenced(done.content) and before.done.is_error == done.is_error
            if alike and _same(before.call, call):
                return _RepeatedCall(call, done, before.rounds + 1)
        return _RepeatedCall(call, done)

    def _repetitions(self, seen: list[_RepeatedCall], reply: ModelReplied | None) -> Iterator[str | None]:
        self._last = seen
        if any(call.brings_news for call in seen):
            # The round brought something new, so that the successful calls which it repeats count anew.
            for call in seen:
                call.rounds = call.rounds if call.done.is_error else 1
        self._failed = self._failed + 1 if all(call.done.is_error for call in seen) else 0
        refused: list[_RepeatedCall] = []
        for call in seen:
            if call.done.outcome is Outcome.DENIED:
                yield self._refused_again(call, refused)
            elif call.rounds > 1:
                yield _again(call)
        if self._failed >= ALL_FAILED.nudge:
            yield _all_failed(self._failed)
        if reply is not None:
            yield self._repeated(reply)

    def _refused_again(self, one: _RepeatedCall, of_this_round: list[_RepeatedCall]) -> str | None:
        if any(_same(one.call, other.call) for other in of_this_round):
            return None
        of_this_round.append(one)
        known = next((before for before in self._refused if _same(before.call, one.call)), None)
        if known is None:
            self._refused = [*self._refused[1 - REMEMBERED :], _RepeatedCall(one.call, one.done)]
            return None
        known.rounds += 1
        name = one.call.name
        return REFUSED.check(
            known.rounds,
            f"The same call of {name} was refused twice, and will be again. Do without it, or finish with what you "
            "have.",
            f"the agent made the same call of {name} again after it was refused {known.rounds - 1} times",
        )

    def _repeated(self, reply: ModelReplied) -> str | None:
        """The nudge for a reply with the same text, thinking and calls as the one before. Raises `NoProgress`."""
        before, self._last_reply = self._last_reply, reply
        alike = before is not None and (before.text, before.thinking) == (reply.text, reply.thinking)
        if not alike or before is None or len(reply.text) + len(reply.thinking) < MIN_REPEATED:
            self._same_replies = 1
            return None
        calls, others = reply.tool_calls, before.tool_calls
        same = len(calls) == len(others) and all(map(_same, calls, others))
        self._same_replies = self._same_replies + 1 if same else 1
        return SAME_OUTPUT.check(
            self._same_replies,
            f"Your last {self._same_replies} replies were word for word the same. Go another way, or finish with what "
            "you have.",
            f"the model gave the same reply {self._same_replies} times in a row",
        )


def _again(one: _RepeatedCall) -> str | None:
    """The nudge for a call with the same result as in the round before. Raises `NoProgress`."""
    name, rounds = one.call.name, one.rounds
    if one.done.is_error:
        return SAME_FAILURE.check(
            rounds,
            f"The same call of {name} failed {rounds} times in a row in the same way. It will not work the next time "
            "either: change its arguments, go another way, or finish with what you have.",
            f"the same call of {name} failed {rounds} times in a row",
        )
    return SAME_OUTPUT.check(
        rounds,
        f"The same call of {name} gave the same output {rounds} times in a row. Do not repeat it: go another way, or "
        "finish with what you have.",
        f"the same call of {name} gave the same output {rounds} times in a row",
    )


def _all_failed(rounds: int) -> str | None:
    return ALL_FAILED.check(
        rounds,
        f"Every tool call of your last {rounds} replies failed. Read what the errors say and go another way, or finish "
        "with what you have and say what stood in your way.",
        f"every tool call of {rounds} replies in a row failed",
    )


def _cut_off(reply: ModelReplied) -> str | None:
    """The nudge for a reply that reached its maximum length within a tool call."""
    if all(isinstance(call.arguments, Mapping) for call in reply.tool_calls):
        return None
    return (
        "Your last reply reached its maximum length before its tool calls were whole. Send what was cut off again, "
        "in smaller pieces."
    )


def _same(one: ToolCall, other: ToolCall) -> bool:
    """Whether tool and arguments are equal. Arguments nested too deeply to compare count as different."""
    try:
        return one.name == other.name and one.arguments == other.arguments
    except RecursionError:
        return False


CONTINUED = 8
"""Most consecutive replies of maximum length that the model is asked to continue."""

ASKED_AGAIN = 2
"""Most consecutive empty replies after which the model is asked for its answer."""

MAX_REFUSAL = 1_000
"""Most characters of a model's refusal that are passed on."""

LONGEST_ANNOUNCEMENT = 400
"""Most characters of a reply that is checked for only announcing the next step."""

# An RE2 pattern, linear in the text's length: a model could write text on which a backtracking pattern never ends.
_ANNOUNCED = Pattern(
    r"(?i)(^|[.!:\n]\s*)((now|next|first|then|so|ok|okay|alright|sure|great),?\s+)*"
    r"(let me|let's|i'll|i will|i'm going to|i am going to)( now| first| next| then| also| start by| begin by)*\s+"
    r"(read|look|check|search|open|examine|examining|reading|looking|inspect|explore|run|list|find|scan|investigate|"
    r"analy[sz]e|review|gather|fetch|call|use|dig|take a (closer )?look|go through|continue|proceed|start|begin)"
    r"\b[^.!?\n]{0,200}[.:…!]*\s*$"
)
"""Matches a reply whose last sentence only announces the next step."""

_CURLY = str.maketrans({"\u2019": "'"})


@dataclass(slots=True)
class AnswerCheck:
    """Judges whether a run's replies without tool calls are answers. Only `judge` and `begin_new_answer` change it.

    `text`: the text of the last reply, preceded by that of the cut-off replies it continues. `remark`: why that may be
    no answer although it is taken as one.
    """

    text: str = ""
    remark: str = ""
    _whole: str = ""
    _cut: int = 0
    _silent: int = 0
    _before: str = ""
    _sent_back: set[str] = field(default_factory=set)

    def judge(self, reply: ModelReplied, tools: Collection[str], finish_tools: Collection[str]) -> AgentStep | None:
        """A nudge when the reply is no answer; None when it has tool calls or may be the answer.

        `tools`: names of all the agent's tools; `finish_tools`: the gate's. Raises `ModelRefused`, `NotDone`,
        `NoAnswer`.
        """
        said, self._before = self._before + reply.text, ""
        self._whole, self.text, self.remark = self.text, said or self.text, ""
        if reply.calls_tools:
            self._cut = self._silent = 0
            return None
        if reply.finish_reason in ("refusal", "content_filter"):
            raise ModelRefused(_refusal(reply))
        if reply.finish_reason == NOT_DONE:
            raise NotDone(f"the model {reply.model} cannot do this; its answer says what it can")
        if not reply.text.strip():
            return None if finish_tools else self._empty(reply)
        self._silent = 0
        if reply.finish_reason == "length":
            return self._cut_off(said, finish_tools)
        self._cut = 0
        return self._not_finished(reply, frozenset(tools))

    def begin_new_answer(self) -> None:
        """Reset the counts: a message has reached the agent, and its next reply begins a new answer."""
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
            raise NoAnswer(f"the model did not come to an end: {self._cut} replies in a row had their maximum length")
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

    def _not_finished(self, reply: ModelReplied, tools: frozenset[str]) -> AgentStep | None:
        """The nudge for a reply with text that is no answer, each kind at most once per run. Raises `NoAnswer`.

        A reply that only its words make suspect is the answer the second time, with a remark.
        """
        leak = leak_in(reply.text, tools)
        if leak is not None and leak.kind == "leaked":
            if leak.certain:
                self.text = self._whole
            failure = missing_parser(reply.text, reply.model) if leak.certain else ""
            return self._judged("leaked", _CALL_AS_TEXT, failure)
        if leak is not None:
            failure = missing_reasoning_parser(reply.model) if leak.certain else ""
            return self._judged("thinking", _THOUGHT_ALOUD, failure)
        if not tools:
            return None
        if reply.finish_reason == "tool_calls":
            return self._judged("announced", _ANNOUNCED_ONLY, missing_calls(reply.model))
        return self._judged("announced", _ANNOUNCED_ONLY, "") if _is_announced(reply) else None

    def _judged(self, kind: str, nudge: str, failure: str) -> AgentStep | None:
        """The nudge the first time; then a failure, or where none is due, a remark on the answer that is taken."""
        if kind not in self._sent_back:
            self._sent_back.add(kind)
            return _nudge(nudge)
        if failure:
            raise NoAnswer(failure)
        self.remark = _TAKEN[kind]
        return None


_TAKEN = {
    "leaked": "The reply may be a tool call that was written out as text: it was sent back once, and came again.",
    "thinking": "The reply may have the model's thinking in it: it was sent back once, and came again.",
    "announced": "The reply may only announce a next step: it was sent back once, and came again.",
}
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
    words = " ".join((refusal_in(reply.blocks) or reply.text).split())[:MAX_REFUSAL].rstrip(".")
    if reply.finish_reason == "content_filter":
        return "the provider's content filter ended the reply" + (f" after: {words}" if words else "")
    return f"the model refused: {words}" if words else "the model refused and did not say why"


def _is_announced(reply: ModelReplied) -> bool:
    """Whether the reply is short and ends by announcing the next step."""
    text = reply.text.strip().translate(_CURLY)
    return len(text) <= LONGEST_ANNOUNCEMENT and _ANNOUNCED.search(text) is not None
