"""What a session still knows that is much longer than its model's window: numbers that were told in one turn and never
again, and numbers that were corrected later, asked for when the turn that told them is not shown any more."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from benchmarks.conversations.speaking import NAMES, Speaking, prose
from benchmarks.conversations.talk import Place, Talk
from benchmarks.summary import Promise
from benchmarks.workload import table
from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.transcript.messages import ToolResults, UserMessage
from mcc.transcript.transcript import request_in

WINDOW, CHARACTERS = 32_000, 2_400
"""Tokens of the model's context, and characters of a prompt: some twenty turns fit."""

ASKED_SHARES = (0.003, 0.3, 0.7)
"""Of a thousand turns the third, the 300th and the 700th, whose numbers are asked for at the end."""

CORRECTED_EVERY, ASKED_EVERY, LONG_AGO = 10, 20, 60
"""Every tenth turn corrects a number, every twentieth is followed by a question; both of what was told so many turns
before, or in the first half of a shorter session."""

CORRECTIONS_ASKED = 20
FACTS = 4
"""Numbers that a turn tells: more than the lines of any summary can keep."""

UNKNOWN = "I do not know."

_PLACES = ("harbour", "orchard", "quarry", "tower", "viaduct", "museum", "foundry", "library", "granary", "arsenal")
_THINGS = ("ledger", "boiler", "gate", "clock", "crane", "archive", "well", "lantern", "organ", "scale")
# Also as the lines of a summary shorten it.
_TOLD = re.compile(r"number (?:of )?(?:the )?(\w+ \w+) (?:of )?(\w+) (?:is )?(?:now )?(\d{6})")
_QUESTION = re.compile(r"Which number has the (\w+ \w+ of \w+)\?")
_FOUND = re.compile(r"^turn (\d+)/(\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a turn tells. `corrects`: the turn that told another number of the same thing; 0: none did."""

    turn: int
    thing: str
    number: str
    corrects: int = 0

    @property
    def sentence(self) -> str:
        return f"The number of the {self.thing} is {'now ' if self.corrects else ''}{self.number}."


def question(thing: str) -> str:
    return f"Which number has the {thing}?"


class Facts:
    """What so many turns tell, counted from 1; always the same for a seed. A number that turn `asked` tells is never
    corrected."""

    def __init__(self, turns: int, asked: Sequence[int], seed: int = 1) -> None:
        self._dice = Random(seed)
        kinds = [f"{place} {thing}" for place, thing in product(_PLACES, _THINGS)]
        names = self._dice.sample(NAMES, FACTS * turns)
        self._things = [f"{self._dice.choice(kinds)} of {name}" for name in names]
        self._may_not_change = {*asked}
        self._by_turn: list[list[Fact]] = []
        for turn in range(1, turns + 1):
            self._by_turn.append([self._next(turn), *(self._new(turn) for _ in range(FACTS - 1))])

    def _new(self, turn: int) -> Fact:
        return Fact(turn, self._things.pop(), self._number())

    def _number(self) -> str:
        return f"{self._dice.randrange(10**6):06}"

    def _next(self, turn: int) -> Fact:
        """Every so many turns another number of a thing that was told long before."""
        old = [fact for fact in self.long_before(turn) if fact.turn not in self._may_not_change and not fact.corrects]
        if turn % CORRECTED_EVERY or not old:
            return self._new(turn)
        corrected = self._dice.choice(old)
        self._may_not_change.add(corrected.turn)
        return Fact(turn, corrected.thing, self._number(), corrects=corrected.turn)

    def told_through(self, turn: int) -> Sequence[Fact]:
        return [fact for facts in self._by_turn[:turn] for fact in facts]

    def told_in(self, turn: int) -> Sequence[Fact]:
        return self._by_turn[turn - 1]

    def long_before(self, turn: int) -> Sequence[Fact]:
        return self.told_through(max(0, turn - LONG_AGO) or turn // 2)

    def numbers(self, thing: str, turn: int) -> list[str]:
        """The numbers of a thing that were told through a turn, the newest last."""
        return [fact.number for fact in self.told_through(turn) if fact.thing == thing]

    def asked_after(self, turn: int) -> str:
        """The thing that is asked for after a turn: every other time one whose number was corrected, if any was."""
        old = self.long_before(turn)
        corrections = [fact for fact in old if fact.corrects]
        return self._dice.choice(corrections if corrections and turn // ASKED_EVERY % 2 else old).thing

    def prompt(self, turn: int) -> str:
        """What a person says in a turn: its sentences, in the midst of much else."""
        before, after = (prose(f"{turn} {part}", CHARACTERS // 2) for part in ("before", "after"))
        return f"{before}. {' '.join(fact.sentence for fact in self.told_in(turn))} {after}."


def told_in(text: str, thing: str) -> Iterator[str]:
    return (number for kind, owner, number in _TOLD.findall(text) if f"{kind} of {owner}" == thing)


class Looking(Speaking):
    """Answers a question from what it is shown, the newest mention first, else from what `history_search` finds, the
    newest turn first. What it found for an earlier question may be superseded, and does not count. It knows nothing
    else, and its summaries hold nothing of what was told. `searched`: how often it had to."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self.searched = 0

    def reply(self, ask: Ask) -> Said:
        prompt = next(
            request_in(one.text) for one in reversed(ask.messages) if isinstance(one, UserMessage) and one.by_person
        )
        asked = _QUESTION.search(prompt)
        if asked is None:
            return super().reply(ask)
        thing, last = asked[1], ask.messages[-1]
        if isinstance(last, ToolResults):
            return _answer(thing, _newest_found(last.as_shown[-1].content, thing))
        said = (message.text for message in ask.messages if not isinstance(message, ToolResults))
        shown = [number for text in said for number in told_in(text, thing)]
        if shown:
            return _answer(thing, shown[-1])
        self.searched += 1
        return Line(calls=(call("history_search", query=question(thing)),))


def _answer(thing: str, number: str | None) -> str:
    return UNKNOWN if number is None else f"The number of the {thing} is {number}."


def _newest_found(content: str, thing: str) -> str | None:
    """The number in the newest of the entries that a search found."""
    starts = [*_FOUND.finditer(content)]
    ends = [*(match.start() for match in starts[1:]), len(content)]
    found = [
        ((int(match[1]), int(match[2])), number)
        for match, end in zip(starts, ends, strict=True)
        for number in told_in(content[match.start() : end], thing)
    ]
    return max(found)[1] if found else None


@dataclass(frozen=True, slots=True)
class Remembered:
    """What came of the questions: `wrong` has each answer that was not the newest number, `superseded` counts those
    that were an older one. `asked`: how many questions there were, `searched`: for how many the model searched."""

    asked: int
    searched: int
    superseded: int
    wrong: Sequence[str]
    moments: Counter[str]


async def remembered_by(place: Place, turns: int, window: int = WINDOW) -> Remembered:
    """A session of so many turns on a window of so many tokens, with questions between them and at their end."""
    ends = [max(1, round(share * turns)) for share in ASKED_SHARES]
    facts, model = Facts(turns, ends), Looking(window)
    wrong, asked, superseded = list[str](), 0, 0
    session_id: str | None = None
    async with Talk(place, model) as talk:

        async def ask(thing: str, turn: int) -> None:
            nonlocal asked, superseded
            order, _ = await talk.say(question(thing), session_id)
            *older, newest = facts.numbers(thing, turn)
            answer, asked = order.answer or "", asked + 1
            superseded += any(number in answer for number in older)
            if newest not in answer:
                wrong.append(f"after turn {turn}: {question(thing)} {answer}")

        for turn in range(1, turns + 1):
            order, _ = await talk.say(facts.prompt(turn), session_id)
            session_id = order.session_id
            if turn % ASKED_EVERY == 0:
                await ask(facts.asked_after(turn), turn)
        corrected = [fact.thing for fact in facts.told_through(turns) if fact.corrects][:CORRECTIONS_ASKED]
        for thing in [*(facts.told_in(end)[0].thing for end in ends), *corrected]:
            await ask(thing, turns)
        return Remembered(asked, model.searched, superseded, wrong, talk.journaled.moments)


async def measured(database: str, place: Place, turns: int) -> Sequence[Promise]:
    """The figure of a session of so many turns."""
    done = await remembered_by(place, turns)
    listed = ", ".join(f"{name} {count}" for name, count in sorted(done.moments.items()))
    rows = [(done.asked, done.searched, done.asked - len(done.wrong), done.superseded, listed)]
    head = ("questions", "searched for", "right", "superseded", "compactions")
    table(f"Numbers asked for in {turns:,} turns on a window of {WINDOW:,} tokens, {database}", head, rows)
    for sentence in done.wrong:
        print(f"  {sentence}")
    share = (done.asked - len(done.wrong)) / done.asked
    return [
        Promise(f"right answers, {turns:,} turns on {WINDOW:,} tokens, {database}", share, 1.0, at_least=True),
        Promise(f"superseded numbers in answers, {database}", done.superseded, 0),
    ]
