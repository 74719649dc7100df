"""Progress: an agent that goes round in circles is nudged, and then stopped."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drone.agent.report import NoProgress
from drone.agent.transcript import NUDGE
from mcc.contracts.blocks import ToolCall
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import AgentStep, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelReplied

SAID_ENOUGH = 200
"""Characters of text and thinking from which on their repetition is no accident; shorter ones may well accompany work
that goes on ("Next page.")."""

REMEMBERED = 256
"""Refused calls that are remembered of a run."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """How often something may happen before the model is nudged, and before its run is halted."""

    nudge: int
    halt: int

    def met(self, times: int, nudge: str, halt: str) -> str | None:
        """The nudge that is due. Raises `NoProgress`."""
        if times >= self.halt:
            raise NoProgress(halt)
        return nudge if times == self.nudge else None


SAME_FAILURE = Ladder(2, 3)
"""The same call (tool and arguments) with the same error, round after round."""

REFUSED = Ladder(2, 3)
"""The same call refused, in any rounds: the second time it is nudged, so that nobody is halted who was not told."""

SAME_OUTPUT = Ladder(3, 4)
"""The same call with the same output, in rounds that bring nothing else either; or the same long reply."""

ALL_FAILED = Ladder(4, 6)
"""Rounds of which every call failed."""


@dataclass(slots=True)
class _Seen:
    """A call with what it brought, and for how many rounds in a row it did."""

    call: ToolCall
    done: ToolFinished
    rounds: int = 1

    @property
    def brings_news(self) -> bool:
        return self.rounds == 1 and not self.done.is_error


@dataclass(slots=True)
class Progress:
    """Watches one run. Everything counts once a round: a hundred bad calls in one reply are one bad round."""

    _last: list[_Seen] = field(default_factory=list)
    _refused: deque[_Seen] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _failed: int = 0
    _said: ModelReplied | None = None
    _said_again: int = 1

    def saw(
        self, watched: Sequence[tuple[ToolCall, ToolFinished]], reply: ModelReplied | None = None
    ) -> AgentStep | None:
        """What one reply called and what came of each call; a nudge for the model, if one is due.

        Calls that the gate judges are left out: the gate counts the attempts itself. Raises `NoProgress`.
        """
        nudges: list[str] = []
        if seen := [self._with_last(call, done) for call, done in watched]:
            nudges.extend(nudge for nudge in self._circles(seen, reply) if nudge is not None)
        if reply is not None and reply.finish_reason == "length" and (cut := _cut_off(reply)):
            nudges.append(cut)
        said = "\n".join(dict.fromkeys(nudges))
        return AgentStep(name=NUDGE, message=said, in_results=True) if nudges else None

    def _with_last(self, call: ToolCall, done: ToolFinished) -> _Seen:
        """The call, counted on from the round before when it was the same there."""
        for before in self._last:
            alike = unfenced(before.done.content) == unfenced(done.content) and before.done.is_error == done.is_error
            if alike and _same(before.call, call):
                return _Seen(call, done, before.rounds + 1)
        return _Seen(call, done)

    def _circles(self, seen: list[_Seen], reply: ModelReplied | None) -> Iterator[str | None]:
        self._last = seen
        if any(one.brings_news for one in seen):
            _forgive(seen)
        self._failed = self._failed + 1 if all(one.done.is_error for one in seen) else 0
        refused: list[_Seen] = []
        for one in seen:
            if one.done.outcome is Outcome.DENIED:
                yield self._refused_again(one, refused)
            elif one.rounds > 1:
                yield _again(one)
        if self._failed >= ALL_FAILED.nudge:
            yield _all_failed(self._failed)
        if reply is not None:
            yield self._repeated(reply)

    def _refused_again(self, one: _Seen, of_this_round: list[_Seen]) -> str | None:
        if any(_same(one.call, other.call) for other in of_this_round):
            return None
        of_this_round.append(one)
        known = next((before for before in self._refused if _same(before.call, one.call)), None)
        if known is None:
            self._refused.append(_Seen(one.call, one.done))
            return None
        known.rounds += 1
        name = one.call.name
        return REFUSED.met(
            known.rounds,
            f"The same call of {name} was refused twice, and will be again. Do without it, or finish with what you "
            "have.",
            f"the agent made the same call of {name} again after it was refused {known.rounds - 1} times",
        )

    def _repeated(self, reply: ModelReplied) -> str | None:
        """Whether the model says word for word, and calls, what it did before."""
        before, self._said = self._said, reply
        alike = before is not None and (before.text, before.thinking) == (reply.text, reply.thinking)
        if not alike or before is None or len(reply.text) + len(reply.thinking) < SAID_ENOUGH:
            self._said_again = 1
            return None
        calls, others = reply.tool_calls, before.tool_calls
        same = len(calls) == len(others) and all(map(_same, calls, others))
        self._said_again = self._said_again + 1 if same else 1
        return SAME_OUTPUT.met(
            self._said_again,
            f"Your last {self._said_again} replies were word for word the same. Go another way, or finish with what "
            "you have.",
            f"the model gave the same reply {self._said_again} times in a row",
        )


def _forgive(seen: list[_Seen]) -> None:
    """The round brought something new: what was the same as before did no harm in it."""
    for one in seen:
        if not one.done.is_error:
            one.rounds = 1


def _again(one: _Seen) -> str | None:
    """The nudge for a call that brought the same as in the round before. Raises `NoProgress`."""
    name, rounds = one.call.name, one.rounds
    if one.done.is_error:
        return SAME_FAILURE.met(
            rounds,
            f"The same call of {name} failed {rounds} times in a row in the same way. It will not work the next time "
            "either: change its arguments, go another way, or finish with what you have.",
            f"the same call of {name} failed {rounds} times in a row",
        )
    return SAME_OUTPUT.met(
        rounds,
        f"The same call of {name} gave the same output {rounds} times in a row. Do not repeat it: go another way, or "
        "finish with what you have.",
        f"the same call of {name} gave the same output {rounds} times in a row",
    )


def _all_failed(rounds: int) -> str | None:
    return ALL_FAILED.met(
        rounds,
        f"Every tool call of your last {rounds} replies failed. Read what the errors say and go another way, or finish "
        "with what you have and say what stood in your way.",
        f"every tool call of {rounds} replies in a row failed",
    )


def _cut_off(reply: ModelReplied) -> str | None:
    """What to do when a reply reached its maximum length before its calls were whole."""
    if all(isinstance(call.arguments, Mapping) for call in reply.tool_calls):
        return None
    return (
        "Your last reply reached its maximum length before its tool calls were whole. Send what was cut off again, "
        "in smaller pieces."
    )


def _same(one: ToolCall, other: ToolCall) -> bool:
    """The same tool and arguments. Arguments nested too deeply to be compared are taken for different ones."""
    try:
        return one.name == other.name and one.arguments == other.arguments
    except RecursionError:
        return False
