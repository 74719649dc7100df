"""The opening of a turn: what its agent is shown of its session's earlier turns, and how it is made to fit."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TypeGuard

from mcc.contracts.attachments import GIVEN, ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.journal import AgentStep
from mcc.contracts.turn_context import ContextMode, TurnBefore, TurnContext
from mcc.redaction import Redactor
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.messages import Message, ToolResults, UserMessage
from mcc.transcript.shown import ShownMessage, canonical, digest_of
from mcc.transcript.transcript import length, note_of, request_in

REPLY_TOKENS = 4_096
"""Left free for the reply; in a small window, an eighth of it."""

OTHER_TOKENS = 9_000
"""Left free for what a turn adds before anything can be shortened; in a small window, a tenth of it."""

LINE_CHARACTERS = 120
LINES_SHARE = 8
"""The lines of turns that are not shown take at most this part of the window."""

HEADING = (
    "# Earlier in this conversation\n\nThese turns did not fit any more. Only the beginning of each request is left:\n"
)

PUT_AWAY = "put_away"
"""Name of the step that says how many turns of the session are shown by a line only."""

_LEFT_OUT = "(earlier turns are not listed)"


@dataclass(frozen=True, slots=True)
class SessionOpening:
    """`shown`: the messages of earlier turns, oldest first. `base`, `turns`: what they are stored as, as in
    `TurnContext`. `put_away`: how many turns were reduced to a line for this turn. `before`: the newest turn that is
    shown, if it is stored. `repeats`: this turn repeats another one, wholly or up to some entry. `surroundings`: what
    the turn's set-up depends on besides its agent. `tainted`: what the agent is shown at its
    start, the workspace included, may have text from outside.
    """

    shown: tuple[ShownMessage, ...] = ()
    base: str | None = None
    turns: tuple[str, ...] = ()
    mode: ContextMode = "full"
    put_away: int = 0
    tainted: bool = False
    before: TurnBefore | None = None
    repeats: bool = False
    surroundings: str = ""
    session_id: str = ""

    def without(self, redactor: Redactor) -> "SessionOpening":
        """The same opening as models may be shown it, without secrets."""
        return replace(self, shown=tuple(one.without(redactor) for one in self.shown))

    @property
    def is_rolled_back(self) -> bool:
        """Whether turns after those that are shown were taken back."""
        return self.before is not None and self.before.rolled_back

    @property
    def last_at(self) -> datetime | None:
        """When the last request of the turn before was answered; None: not known."""
        last = None if self.before is None else self.before.last
        return None if last is None else last.at

    @property
    def characters(self) -> int:
        return sum(length(one.message) for one in self.shown)

    @property
    def artifacts(self) -> Iterator[str]:
        """Digests of the whole texts of the results that are shown in part."""
        results = (result for one in self.shown for result in one.form.get("results", ()))
        return (result["artifact"] for result in results if result["artifact"])

    @property
    def pictures(self) -> Iterator[ImageBlock]:
        """The pictures that are shown."""
        for one in self.shown:
            match one.message:
                case UserMessage(pictures=pictures):
                    yield from (picture.image for picture in pictures)
                case ToolResults(results=results):
                    yield from (picture.image for result in results for picture in result.pictures)

    @property
    def count(self) -> int:
        """The number of turns that are shown."""
        return len({one.order_id for one in self.shown if one.order_id})

    @property
    def notes(self) -> tuple[AgentStep, ...]:
        """The step that tells people how many turns of its session the agent is shown; none without any."""
        return (note_of(self.count),) if self.count else ()

    @property
    def steps(self) -> tuple[AgentStep, ...]:
        """The step that tells people that turns were put away; none where all are shown."""
        if self.put_away == 0:
            return ()
        shown = "turn is shown by a line" if self.put_away == 1 else f"{self.put_away} turns are shown by a line each"
        return (
            AgentStep(name=PUT_AWAY, message=f"The session did not fit into the model's context: the oldest {shown}."),
        )

    def context(self, environment: Mapping[str, str]) -> TurnContext | None:
        """What the journal says of it, and of the parts of the environment that have been told by now; None when there
        is nothing to say."""
        if not self.shown and not environment:
            return None
        return TurnContext(
            mode=self.mode,
            base=self.base,
            turns=self.turns,
            messages=len(self.shown),
            tokens=self.characters // CHARACTERS_PER_TOKEN,
            digest=digest_of(self.shown),
            environment=environment,
        )


NO_OPENING = SessionOpening()
"""That of a first turn, and of an agent without a session."""


async def fitted(
    opening: SessionOpening, window: int | None, besides: int, keep: Callable[[str], Awaitable[str]]
) -> SessionOpening:
    """The opening, as it is where it fits into a window of so many tokens beside `besides` characters, which are sent
    with it, or where nobody has said how large the window is. Where it does not fit, its oldest turns become a line
    each until half of the window is free, and the whole is kept as a base (`keep` answers the digest of a text).
    """
    if window is None or not opening.shown:
        return opening
    free = min(REPLY_TOKENS, window // 8) + min(OTHER_TOKENS, window // 10)
    if (opening.characters + besides) // CHARACTERS_PER_TOKEN + free <= window:
        return opening
    short, put_away = _with_lines(opening.shown, max(0, window * CHARACTERS_PER_TOKEN // 2 - besides), window)
    if put_away == 0:
        return opening
    base = await keep(canonical(short).decode())
    return replace(opening, shown=short, base=base, turns=(), put_away=put_away)


def _with_lines(shown: Sequence[ShownMessage], most: int, tokens: int) -> tuple[tuple[ShownMessage, ...], int]:
    """The messages, of which the oldest turns are lines so that the whole has at most so many characters; and how many
    turns that were."""
    groups = [(order_id, [*messages]) for order_id, messages in groupby(shown, key=lambda placed: placed.order_id)]
    before = groups.pop(0)[1] if groups and not groups[0][0] else []
    summaries = [placed for placed in before if not is_list(placed.message)]
    listed_before = (placed.message.text for placed in before if is_list(placed.message))
    lines = [line for text in listed_before for line in text.removeprefix(HEADING).split("\n")]
    left = sum(length(placed.message) for placed in summaries)
    left += sum(length(placed.message) for _, messages in groups for placed in messages)
    number = 0
    while number < len(groups) and left + sum(map(len, lines)) > most:
        _, messages = groups[number]
        left -= sum(length(placed.message) for placed in messages)
        lines = _newest([*lines, _line(messages)], tokens * CHARACTERS_PER_TOKEN // LINES_SHARE)
        number += 1
    if number == 0:
        return tuple(shown), 0
    last = groups[number - 1][1][-1]
    listed = ShownMessage.of(UserMessage(HEADING + "\n".join(lines)), "", last.turn, 0)
    return (*summaries, listed, *(placed for _, messages in groups[number:] for placed in messages)), number


def is_list(message: Message) -> TypeGuard[UserMessage]:
    """Whether the message lists turns that are not shown themselves."""
    return isinstance(message, UserMessage) and message.text.startswith(HEADING)


def _line(messages: Sequence[ShownMessage]) -> str:
    first = messages[0]
    text = first.message.text if isinstance(first.message, UserMessage) else ""
    words = " ".join(request_in(text).split())
    return f"turn {first.turn}: {words[:LINE_CHARACTERS]}"


def _newest(lines: Sequence[str], most: int) -> list[str]:
    """The newest lines that have at most so many characters together, after a word about the others."""
    kept: list[str] = []
    for line in reversed(lines):
        if sum(map(len, kept)) + len(line) > most:
            return [_LEFT_OUT, *kept[::-1]]
        kept.append(line)
    return kept[::-1]


def notes_on(attachments: Sequence[ShownAttachment]) -> tuple[AgentStep, ...]:
    """The step that tells people which files the agent was given; none without any."""
    if not attachments:
        return ()
    names = ", ".join(attachment.name or "one that was removed" for attachment in attachments)
    files = "a file" if len(attachments) == 1 else f"{len(attachments)} files"
    return (AgentStep(name=GIVEN, message=f"It was given {files}: {names}."),)
