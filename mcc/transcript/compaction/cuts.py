"""Where a conversation can be cut, and which of its results and arguments can be put away; without any input."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcc.contracts.blocks import ToolCall
from mcc.contracts.compaction import Clipped
from mcc.contracts.shape import to_json
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN, LONG_ARGUMENT, PUT_AWAY
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.transcript import length

SMALL_WINDOW = 8_000
"""A smaller window has no room for a summary: only handles are made there."""

LEAST_RESULT = 200 * CHARACTERS_PER_TOKEN
LINE = 120
"""About how many characters the line takes that stands for what was put away."""

ROUNDS_KEPT = 2
STAYS = ("rules_", "skills_")
"""Beginnings of the names of tools whose results always stay."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The context of a model: `tokens`, and the parts of it that are kept free."""

    tokens: int

    @property
    def summary(self) -> int:
        return min(8_000, self.tokens // 10)

    @property
    def reply(self) -> int:
        return min(4_096, self.tokens // 8)

    @property
    def is_small(self) -> bool:
        return self.tokens < SMALL_WINDOW

    def is_full(self, tokens: int) -> bool:
        """Whether a request of so many tokens leaves no room for its reply and, in a window that is not small, for a
        summary afterwards."""
        if self.is_small:
            return tokens + self.reply > self.tokens
        return tokens + self.reply + self.summary + 1_000 > self.tokens or tokens >= 0.9 * self.tokens

    def is_too_full_to_sum_up(self, tokens: int) -> bool:
        """Whether a request of so many tokens leaves no room for a summary, or for a reply."""
        return tokens + self.reply + self.summary > self.tokens


def size(message: Message) -> int:
    """The length of a message in characters with the arguments of its calls."""
    if isinstance(message, AssistantMessage):
        return length(message) + sum(len(to_json(call.arguments)) for call in message.tool_calls)
    return length(message)


def places_to_cut(messages: Sequence[Message]) -> list[int]:
    """The numbers of messages before which a conversation may be cut: never between a call and its result, and never
    behind what the model has not read yet, which is all after its last reply."""
    end, last = len(messages), rounds_from(messages, 1)
    if messages and isinstance(reply := messages[last], AssistantMessage):
        end = last if reply.tool_calls else last + 1
    places = enumerate(messages[: end + 1])
    return [number for number, message in places if not isinstance(message, ToolResults) and number]


def kept_from(messages: Sequence[Message], first: int, most: int) -> int | None:
    """The number of the first message that stays: not before `first`, the last ones of at most so many characters, and
    the last round whatever its length. None: nothing would go."""
    places = places_to_cut(messages)
    if not places:
        return None
    behind = [0] * (len(messages) + 1)
    for number in range(len(messages) - 1, -1, -1):
        behind[number] = behind[number + 1] + size(messages[number])
    fitting = (place for place in places if place >= first and behind[place] <= most)
    return next(fitting, places[-1])


def rounds_from(messages: Sequence[Message], rounds: int) -> int:
    """The number of the first message of the last `rounds` rounds."""
    replies = [number for number, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    return replies[-rounds] if len(replies) >= rounds else 0


@dataclass(frozen=True, slots=True)
class Freed:
    """What can be put away: `results`, or the `calls` with long arguments. `characters` it frees; `behind`: how many
    characters from the first change on are no longer in the provider's cache."""

    results: tuple[ToolResult, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    characters: int = 0
    behind: int = 0

    def pays(self, window: ContextWindow, *, is_cold: bool = False) -> bool:
        """Whether that is worth a cache that has to be filled anew, as one has to be that `is_cold` anyway."""
        enough = min(20_000, window.tokens // 10) * CHARACTERS_PER_TOKEN
        return self.characters >= enough and (is_cold or 2 * self.characters >= self.behind)


def results_to_put_away(messages: Sequence[Message], clips: Mapping[str, Clipped], window: ContextWindow) -> Freed:
    """Long results outside the newest part and the last rounds."""
    old = messages[: _stays_from(messages, window)]
    chosen: list[ToolResult] = []
    first, freed = len(messages), 0
    for number, message in enumerate(old):
        if not isinstance(message, ToolResults):
            continue
        for result in message.results:
            known = clips.get(result.call_id)
            if len(result.content) <= LEAST_RESULT or result.name.startswith(STAYS):
                continue
            if known is not None and known.kept == PUT_AWAY:
                continue
            chosen.append(result)
            freed += len(result.content) - LINE
            first = min(first, number)
    return Freed(results=tuple(chosen), characters=freed, behind=sum(map(size, messages[first:])))


def arguments_to_put_away(
    messages: Sequence[Message], known: Iterable[str], writing: frozenset[str], window: ContextWindow
) -> Freed:
    """Calls of tools that write, outside the newest part and the last rounds, with long texts as arguments."""
    gone = frozenset(known)
    chosen: list[ToolCall] = []
    first, freed = len(messages), 0
    for number, message in enumerate(messages[: _stays_from(messages, window)]):
        if not isinstance(message, AssistantMessage):
            continue
        for call in message.tool_calls:
            if call.call_id in gone or call.name not in writing:
                continue
            texts = call.arguments.values() if isinstance(call.arguments, Mapping) else ()
            long_texts = [text for text in texts if isinstance(text, str) and len(text) > LONG_ARGUMENT]
            if spared := sum(len(text) - LINE for text in long_texts):
                chosen.append(call)
                freed += spared
                first = min(first, number)
    return Freed(calls=tuple(chosen), characters=freed, behind=sum(map(size, messages[first:])))


def _stays_from(messages: Sequence[Message], window: ContextWindow) -> int:
    """The number of the first message of the newest part, of which nothing is put away."""
    left = min(40_000, window.tokens // 4) * CHARACTERS_PER_TOKEN
    number = len(messages)
    while number and (left := left - size(messages[number - 1])) >= 0:
        number -= 1
    return min(number, rounds_from(messages, ROUNDS_KEPT))


def lines_for(messages: Sequence[Message], turns: Sequence[int]) -> Iterator[str]:
    """A line for each message of a person and each reply of these; `turns`: the turn of each, 0 = the running one."""
    for message, turn in zip(messages, turns, strict=True):
        if isinstance(message, ToolResults):
            continue
        text = " ".join(message.text.split())
        if isinstance(message, AssistantMessage):
            names = ", ".join(dict.fromkeys(call.name for call in message.tool_calls))
            text = f"{text} (called {names})" if names else text
        if text:
            who = "Person" if isinstance(message, UserMessage) else "Agent"
            where = f" → history_read {turn}" if turn else ""
            yield f"{f'turn {turn}: ' if turn else ''}{who}: {text[:LINE]}{where}"
