"""The message in which a summary stands: what people said, which agents there are, and what a model and code kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from mcc.contracts.fence import fenced
from mcc.transcript.previews import preview

SECTIONS = ("## Goal", "## Findings", "## Done", "## Open")
"""What a model must write, in this order."""

KEPT = "## Kept"
BEGINNING = "# Earlier in this conversation ("
WORDS = "## Words of people"
AGENTS = "## Agents"

KEPT_SHARE = 0.4
"""The part of a summary that the checklist may take."""

LINE_CHARACTERS = 120
_WHERE = "history_search and history_read have all of it"


@dataclass(frozen=True, slots=True)
class PersonWords:
    """What a person said: the task, a prompt or a message. `place`: TURN/SEQ where the whole can be read."""

    text: str
    place: str = ""


def heading(first: int, last: int) -> str:
    """The first line of the message; turns are counted from 1, and 0 means a part of one turn alone."""
    turns = f"turn {last}" if first == last else f"turns {first}–{last}"
    return f"{BEGINNING}{turns if last else 'the beginning of this task'}; {_WHERE})"


def words_of_people(words: Sequence[PersonWords], characters: int, newest: int) -> tuple[str, ...]:
    """The words as lines: the first and then the newest whole, in at most so many characters, of the rest the beginning
    and where the whole is, as far as there is room for as much again. The newest alone may have `newest` characters:
    of longer ones, beginning and end stay."""
    last = len(words) - 1
    entire: set[int] = {last} if words and len(words[last].text) <= newest else set()
    if words and not entire:
        said = words[last]
        where = f"history_read {said.place} has them" if said.place else "the record has them"
        words = [*words[:-1], PersonWords(preview(said.text, newest, where, len(said.text)), said.place)]
        entire = {last}
    left = characters
    for number in dict.fromkeys((*range(min(1, len(words))), *reversed(range(len(words))))):
        left -= 0 if number in entire else len(words[number].text)
        if left < 0:
            break
        entire.add(number)
    lines = [said.text if number in entire else _beginning(said) for number, said in enumerate(words)]
    room = 2 * characters + (len(lines[last]) if last in entire else 0)
    kept: list[str] = []
    for line in reversed(lines[1:]):
        room -= len(line) + 3
        if room < 0:
            kept.append(f"({len(lines) - 1 - len(kept)} more are not listed)")
            break
        kept.append(line)
    return (*lines[:1], *reversed(kept))


def _beginning(words: PersonWords) -> str:
    text = " ".join(words.text.split())
    if len(text) <= LINE_CHARACTERS:
        return text
    return f"{text[:LINE_CHARACTERS]}… [{words.place or 'the record has the rest'}]"


def sections_in(reply: str) -> str | None:
    """The four sections of a model's reply, without anything before and after them; None where one is missing."""
    lines = reply.strip().split("\n")
    places: list[int] = []
    for section in SECTIONS:
        start = places[-1] + 1 if places else 0
        place = next((number for number in range(start, len(lines)) if _is(lines[number], section)), None)
        if place is None:
            return None
        places.append(place)
    written = lines[places[0] :]
    ours = [any(_is(line, section) for section in SECTIONS) for line in written]
    other = next((n for n, line in enumerate(written) if line.startswith("## ") and not ours[n]), len(written))
    return "\n".join(written[:other]).strip()


def _is(line: str, section: str) -> bool:
    return line.strip().rstrip(":").lower() == section.lower()


def whole_lines(text: str, characters: int) -> str:
    """The first lines that have at most so many characters together."""
    if len(text) <= characters:
        return text
    cut = text[:characters]
    return cut[: max(0, cut.rfind("\n"))].rstrip()


def built(
    head: str, words: Sequence[str], agents: Sequence[str], sections: str, kept: Sequence[str], *, seed: str
) -> str:
    """The message: people's words and agents as code copied them, then in one fence what a model wrote of texts that
    strangers may have written, and the checklist."""
    parts = [head]
    if words:
        parts.append("\n\n".join((WORDS, *(f"> {line}".replace("\n", "\n> ") for line in words))))
    if agents:
        parts.append("\n".join((AGENTS, *(f"- {line}" for line in agents))))
    listed = "\n".join((KEPT, *(f"- {line}" for line in kept))) if kept else ""
    if inside := "\n\n".join(part for part in (sections, listed) if part):
        parts.append(fenced(inside, seed))
    return "\n\n".join(parts)
