"""The checklist of a conversation: what a summary of it must not lose, gathered and shortened by code alone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mcc.transcript.compaction.sentences import (
    has_change,
    has_identifier,
    has_rule,
    key_of,
    points_back,
    sentences,
    shortened,
)

Speaker: TypeAlias = Literal["person", "agent", "result"]

WEIGHTS: dict[Speaker, float] = {"person": 3, "agent": 2, "result": 1}
LABELLED, LABEL_ALONE = 2.0, 1.2
"""How much more a sentence weighs whose line says what it is (`HARD CONSTRAINT: …`), and one with nothing else."""

CHANGING = 1.5
"""How much more it weighs where it says that something is different from before."""

POINTING_BACK = 0.5
"""How much less it weighs where it cannot be understood alone."""

REPEATED, MOST_REPEATED = 1.05, 1.2
"""How much more it weighs with each time it is said again, and at most."""

MOST_ITEMS = 2_000
"""Of a conversation with more, the lightest are dropped, older ones first."""

CORRECTING = 10.0
"""How much more it weighs where what is shown beside the checklist says otherwise."""

SHORTENING = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text of the conversation and who said it."""

    text: str
    by: Speaker


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One sentence to keep. `order`: its place among all; `label`: what its line called it."""

    text: str
    weight: float
    order: int
    label: str = ""

    def at(self, step: int) -> str:
        """Its line: whole with its label (0), without both what says nothing and its label (1), or shorter still."""
        return (f"{self.label}: {self.text}" if self.label else self.text) if step == 0 else shortened(self.text, step)


@dataclass(frozen=True, slots=True)
class Checklist:
    """Sentences with a rule or an identifier in them, oldest first. Of two that say the same of different values, only
    the later one is there."""

    items: tuple[ChecklistItem, ...] = ()

    @classmethod
    def of(cls, spoken: Iterable[Utterance], carried: Sequence[str] = ()) -> "Checklist":
        """`carried`: the lines that an earlier summary kept, which came before all that is said here."""
        by_key: dict[str, ChecklistItem] = {}
        order = 0
        for line in carried:
            for text, label in sentences(line):
                order += 1
                _take(by_key, key_of(text), ChecklistItem(text, WEIGHTS["person"], order, label))
        for said in spoken:
            for text, label in sentences(said.text):
                of_person = said.by == "person"
                tells = has_rule(text) or has_identifier(text, of_person=of_person)
                if not (tells or (label and of_person)):
                    continue
                order += 1
                weight = WEIGHTS[said.by] * ((LABELLED if tells else LABEL_ALONE) if label else 1)
                weight *= CHANGING if tells and has_change(text) else 1
                weight *= POINTING_BACK if points_back(text) else 1
                # Two lines of a file that differ in a number only are two lines, and no correction.
                key = text if said.by == "result" else key_of(text)
                _take(by_key, key, ChecklistItem(text, weight, order, label))
        items = sorted(by_key.values(), key=_importance)[:MOST_ITEMS]
        return cls(tuple(sorted(items, key=lambda item: item.order)))

    @property
    def weight(self) -> float:
        return sum(item.weight for item in self.items)

    def missing_in(self, *texts: str) -> "Checklist":
        """The items of which none of these texts has the words, whatever else stands between them."""
        known = [_words(text) for text in texts]
        return Checklist(tuple(item for item in self.items if not any(_words(item.text) <= words for words in known)))

    def correcting(self, *texts: str) -> "Checklist":
        """The same, but sentences of which these texts have an older value outweigh all others: who reads the old value
        has to read the new one too."""
        said: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for text in texts:
            for sentence, _ in sentences(text):
                said[key_of(sentence)].append(_words(sentence))

        def weighed(item: ChecklistItem) -> ChecklistItem:
            # Also where the new value is among these texts now: a later summary quotes the old one alone.
            corrects = any(not _words(item.text) <= words for words in said.get(key_of(item.text), ()))
            return replace(item, weight=item.weight * CORRECTING) if corrects else item

        return Checklist(tuple(map(weighed, self.items)))

    def within(self, characters: int) -> tuple[str, ...]:
        """Its lines, oldest first, in at most so many characters. Before a line is dropped, all are shortened; the
        lightest are dropped first, and of equal ones the older."""
        for step in SHORTENING:
            lines = [item.at(step) for item in self.items]
            if sum(map(len, lines)) + len(lines) <= characters:
                return tuple(lines)
        kept: list[ChecklistItem] = []
        for item in sorted(self.items, key=_importance):
            if (size := len(item.at(SHORTENING[-1])) + 1) <= characters:
                characters -= size
                kept.append(item)
        return tuple(item.at(SHORTENING[-1]) for item in sorted(kept, key=lambda item: item.order))


def _importance(item: ChecklistItem) -> tuple[float, int]:
    return (-item.weight, -item.order)


def _take(by_key: dict[str, ChecklistItem], key: str, item: ChecklistItem) -> None:
    """Put the item in the place of one with the same key, which it repeats or corrects."""
    if not key:
        return
    if (before := by_key.pop(key, None)) is not None:
        weight = min(before.weight * REPEATED, item.weight * MOST_REPEATED)
        item = replace(item, weight=max(weight, item.weight), label=item.label or before.label)
    by_key[key] = item


def _words(text: str) -> frozenset[str]:
    """The words of a text that say something, in lower case and without punctuation around them."""
    words = (word.strip(".,;:!?\"'()[]{}<>`*") for word in shortened(text, 2).lower().split())
    return frozenset(word for word in words if word)
