"""What a public judge of compaction measures: the summary that this code builds, with a model that is honest.

`python -m compaction_kit.cli benchmark --spec tests.judges.compaction:Ours --budgets 10%,20% --rounds 50 --format json`
"""

from collections.abc import Sequence

from compaction_kit.compacted import CompactedContext
from compaction_kit.session import Turn

from mcc.contracts.fence import unfenced
from mcc.transcript.compaction.built import KEPT, SECTIONS, built, heading, sections_in, whole_lines
from mcc.transcript.compaction.checklist import Checklist, Speaker, Utterance

SPEAKERS: dict[str, Speaker] = {"user": "person", "system": "person", "assistant": "agent", "tool": "result"}
UNSAID = 0.2
"""The part of the conversation that the message takes where no size is given."""


class Ours:
    """Compacts as a session is compacted, within a size."""

    name = "mcc"

    def __init__(self) -> None:
        self._first = 0

    def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        if round_num == 1:
            self._first = sum(len(turn.text) for turn in turns)
        most = budget_chars if budget_chars is not None else int(UNSAID * self._first)
        carried: tuple[str, ...] = ()
        if round_num > 1:
            carried, turns = _kept_in(turns[0].text), []
        checklist = Checklist.of((Utterance(turn.text, SPEAKERS[turn.role]) for turn in turns), carried)
        return CompactedContext(_within(most, checklist, self.reply(turns)), self.name, round_num)

    def reply(self, turns: Sequence[Turn]) -> str:
        """What an honest model writes: the newest request in its words, and nothing that it does not know."""
        newest = next((turn.text for turn in reversed(turns) if turn.role == "user"), "")
        return "\n".join((SECTIONS[0], newest, *SECTIONS[1:]))


class Forgetful(Ours):
    """The same with a model that keeps nothing."""

    name = "mcc, forgetful model"

    def reply(self, turns: Sequence[Turn]) -> str:
        return "\n".join(SECTIONS)


def _within(characters: int, checklist: Checklist, reply: str) -> str:
    """The message; where it is too long its headings and fences go first, then what the model wrote."""
    head, sections = heading(0, 0), sections_in(reply) or ""
    whole = built(head, (), (), sections, checklist.within(10**9), seed="judge")
    if len(whole) <= characters:
        return whole
    kept = "\n".join(checklist.within(characters))
    said = "\n".join(line for line in sections.split("\n") if line not in SECTIONS)
    return "\n".join(filter(None, (kept, whole_lines(said, characters - len(kept) - 1))))


def _kept_in(text: str) -> tuple[str, ...]:
    """The lines that the message before kept."""
    if KEPT in text:
        text = unfenced(text.partition(f"{KEPT}\n")[2])
    lines = (line.removeprefix("- ") for line in text.split("\n"))
    return tuple(line for line in lines if line and not line.startswith(("#", "</untrusted")))
