"""How much of a request repeats the one before it, which is what providers can serve from their caches."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, TypeAlias

from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.ports.model import Ask
from mcc.contracts.journal import AgentStep
from mcc.contracts.model_facts import Prefix
from mcc.contracts.shape import to_json
from mcc.transcript.messages import Message, ToolSpec
from mcc.transcript.shown import canonical_form

PREFIX_CHANGED = "prefix_changed"
"""Name of the step that says why a request does not begin with the one before it."""

Why: TypeAlias = Literal["agent", "model", "tools", "tool_search", "rollback", "retry", "cold"]

_SAID: dict[Why, str] = {
    "agent": "another agent, or one with other instructions or rights, answers now",
    "model": "another model answers now",
    "tools": "its tools have changed",
    "tool_search": "tools were added, which a search found or subagents in the background need",
    "rollback": "a turn was rolled back",
    "retry": "a turn is repeated",
    "cold": "the last request is older than what the provider keeps, so everything was made anew",
}


def told(why: Why) -> AgentStep:
    """The step that tells why a request repeats less than the whole one before it."""
    return AgentStep(name=PREFIX_CHANGED, message=f"The cached beginning of requests changes: {_SAID[why]}.", why=why)


_system = IdentityCache[[str], bytes](to_json, most=64)
_tool = IdentityCache[[ToolSpec], bytes](
    lambda tool: to_json([tool.name, tool.description, tool.parameters]), most=1_024
)


@dataclass(slots=True)
class PrefixWatch:
    """Compares each request of an agent with the one before it. `last`: the last request under an earlier drone or of
    the turn before; None: there was none."""

    last: Prefix | None = None
    _head: tuple[str, tuple[ToolSpec, ...]] | None = None
    _messages: Sequence[Message] = ()
    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _bytes: int = 0

    def measure(self, ask: Ask) -> Prefix:
        """How much of this request, system prompt, tools and messages in canonical form, is that of the last one."""
        head, count = (ask.system, ask.tools), len(self._messages)
        known = self._head == head and len(ask.messages) >= count
        if known and all(old is new for old, new in zip(self._messages, ask.messages, strict=False)):
            same = self._bytes
            self._add(map(canonical_form, ask.messages[count:]))
        else:
            same = self._again(ask)
        self._head, self._messages = head, ask.messages
        self.last = Prefix(same_bytes=same, bytes=self._bytes, digest=self._hash.hexdigest()[:32])
        return self.last

    def _again(self, ask: Ask) -> int:
        """Measure the whole request; the bytes that it shares with the last one, as far as is known."""
        before, self._hash, self._bytes = self.last, hashlib.sha256(), 0
        shared, pieces = 0, [_system(ask.system), *map(_tool, ask.tools)]
        if self._head is not None:
            system, tools = self._head
            shared = _shared([_system(system), *map(_tool, tools)], pieces)
            if shared == sum(map(len, pieces)) and tools == ask.tools:
                shared += _shared(map(canonical_form, self._messages), map(canonical_form, ask.messages))
        for piece in (*pieces, *map(canonical_form, ask.messages)):
            self._add((piece,))
            is_last = before is not None and before.bytes == self._bytes
            if before is not None and is_last and before.digest == self._hash.hexdigest()[:32]:
                shared = self._bytes
        return shared

    def _add(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._hash.update(piece)
            self._bytes += len(piece)


def _shared(before: Iterable[bytes], after: Iterable[bytes]) -> int:
    """The bytes of the pieces with which both begin."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(len(piece) for piece, _ in same)
