"""Models that answer at once, and the words that are said to them."""

from itertools import product
from random import Random

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, ScriptedModel
from mcc.transcript.compaction.built import SECTIONS
from mcc.transcript.messages import UserMessage
from mcc.transcript.transcript import request_in

_ALL = "bakcordelfengruhalithjunkellormisnarostpelquirostam"
_SYLLABLES = [_ALL[start : start + 3] for start in range(0, len(_ALL), 3)]
WORDS = tuple(a + b for a in _SYLLABLES for b in _SYLLABLES)
NAMES = tuple("".join(parts).capitalize() for parts in product(_SYLLABLES, repeat=3))
"""None of them is a word of `prose`."""

_LINKS = ("the", "of", "and", "to", "in", "which", "has", "is", "that", "with", "was", "it", "what", "are", "number")
_LINK_SHARE = 0.4


def prose(seed: int | str, characters: int) -> str:
    """So many characters of made-up words, with the links of English between them; always the same for a seed. zlib
    makes about a third of them, as of English: a repeated sentence would cost a database nothing."""
    dice, words, length = Random(seed), list[str](), 0
    while length < characters:
        words.append(dice.choice(_LINKS if dice.random() < _LINK_SHARE else WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:characters]


def asks_for_summary(ask: Ask) -> bool:
    """Whether a request asks the model to sum up the conversation."""
    last = ask.messages[-1]
    return (
        isinstance(last, UserMessage)
        and last.text.startswith("<notice>")
        and all(map(last.text.__contains__, SECTIONS))
    )


class Speaking(ScriptedModel):
    """Writes the summary that it is asked for, which repeats the newest request and knows nothing else; to all else
    says what `reply` says. `window`: how many tokens it takes in; None: nobody knows.
    """

    def __init__(self, window: int | None = None, summary_seconds: float = 0.0) -> None:
        super().__init__(self._author, keep_asks=False)
        self.context_tokens = window
        self.cache_seconds: int | None = None
        self.summary_seconds = summary_seconds

    def reply(self, ask: Ask) -> Said:
        """What it says to a request that is not for a summary."""
        return "It is all written down."

    def summary(self, ask: Ask) -> Said:
        """The summary that it writes."""
        said = [request_in(one.text) for one in ask.messages[:-1] if isinstance(one, UserMessage) and one.by_person]
        text = "\n".join((SECTIONS[0], (said or [""])[-1][:400], *SECTIONS[1:]))
        return Line(text, delay_seconds=self.summary_seconds)

    def _author(self, ask: Ask) -> Said:
        return self.summary(ask) if asks_for_summary(ask) else self.reply(ask)
