"""What an agent that answers for a turn was shown of its session's earlier turns."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from mcc.contracts.model_facts import Prefix
from mcc.contracts.shape import Closed, Moment
from mcc.contracts.usage import Usage

ContextMode: TypeAlias = Literal["full", "answers"]
"""What later turns are shown of an ended one: all that its agent was shown and said, or its prompt and answer alone."""

MOST_AFTER_BASE = 64
"""Turns after its base that a context names at most; beyond that, the turns become a new base."""


class LastRequest(Closed):
    """A turn's last request, as the next turn compares its own with it: by whom, to which model (`requested`: under
    which name, None: not known), how long, when.

    `environment`: the digest of each part of the environment that later turns are shown. `opening_tokens`: what the
    next turn is shown besides this one's own messages, estimated; below zero where a summary made these shorter.
    `opening_messages`: how many messages of earlier turns it had, None: not known. `window`: the model's context, None:
    unknown; `input_tokens`: what the provider counted, `cached_input_tokens` of them from its cache.
    """

    agent: str
    model: str
    requested: str | None = None
    at: Moment
    prefix: Prefix | None = None
    environment: Mapping[str, str] = {}
    opening_tokens: int = 0
    opening_messages: int | None = None
    window: int | None = None
    input_tokens: int = 0
    cached_input_tokens: int = 0

    @property
    def cached_share(self) -> float | None:
        """The share of its input that came from the provider's cache; None where nothing was counted."""
        return Usage(input_tokens=self.input_tokens, cached_input_tokens=self.cached_input_tokens).cached_share


class TurnBefore(Closed):
    """The newest turn that a new one is shown, as far as the new one sends the same again: set-up, found tools, last
    request. `rolled_back`: turns after it were taken back; `repeated`: of the turns that are shown, one repeats
    another; `compacted`: what is shown of it and the turns before was shortened when it ended; `clipped`: of what it
    was shown, results or arguments have been put away since.
    """

    setup_digest: str
    setup_key: str
    found: tuple[str, ...] = ()
    last: LastRequest | None = None
    rolled_back: bool = False
    repeated: bool = False
    compacted: bool = False
    clipped: bool = False


class TurnContext(Closed):
    """What a turn's agent was shown before its own first message, so that a resumed run is shown exactly that again.

    `base`: the digest of the stored text with everything up to some turn; `turns`: the orders of the turns after it.
    `messages`, `tokens` (estimated): how much it was altogether; `digest`: of all of it. `environment`: the digest of
    each part of the environment that the session's model has been told.
    """

    mode: ContextMode
    base: str | None = None
    turns: tuple[str, ...] = ()
    messages: int
    tokens: int
    digest: str
    environment: Mapping[str, str] = {}
