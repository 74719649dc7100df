"""How providers say that a question is larger than the context of their model."""

from collections.abc import Collection

from drone.agent.model import ContextOverflow
from drone.models.windows import window_in
from mcc.rules.patterns import Pattern

_STATUSES = frozenset({None, 400, 413, 422, 500})
"""Statuses that such a refusal has, None = it came inside a stream. A limit per minute (429) passes by waiting."""

_KINDS = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"})

_SAID = Pattern(
    r"maximum (?:context|prompt|model) length"
    r"|(?:prompt|input|request|conversation) is too long"
    r"|exceed(?:s|ed|ing)? (?:the |this |its |your )?(?:model'?s )?(?:available |maximum |max )?context"
    r"|(?:context (?:length|window|size|limit)) (?:is |was |has been )?exceeded"
    r"|exceeds the maximum number of (?:input )?tokens"
    r"|too large for model with"
    r"|greater than the context length|context (?:length )?the overflows|when context .{0,20}overflows"
    r"|tokens`? ?\+ ?`?max_(?:new_|completion_)?tokens`? must be <="
    r"|reduce the length of (?:the |your )?(?:messages|prompt|input|conversation)",
    ignore_case=True,
)


def overflow_of(
    said: str, words: str, kinds: Collection[str], status: int | None, body: str = ""
) -> ContextOverflow | None:
    """The error when a provider's `words`, or the types and codes of its answer, say so; `said` is the sentence for
    people, `body` the whole answer, which may tell the size.
    """
    if status != 413 and not _KINDS.intersection(kinds) and not (status in _STATUSES and _SAID.search(words)):
        return None
    return ContextOverflow(said, window_in(words) or window_in(body), status=status)
