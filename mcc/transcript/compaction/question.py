"""What a model is asked for its summary: the message, its room for the reply, and what its summary before lacked."""

from collections.abc import Sequence

from mcc.contracts.model_facts import ModelReplied
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.compaction.built import sections_in
from mcc.transcript.compaction.checklist import Checklist
from mcc.transcript.compaction.cuts import ContextWindow
from mcc.transcript.compaction.gathered import request
from mcc.transcript.messages import UserMessage

REQUEST_TOKENS = 600
"""Most tokens of the message that asks for a summary."""

_WORDS_PER_TOKEN = 0.6
_CUT = ("length", "content_filter", "refusal")


def question(window: ContextWindow, missing: Sequence[str], seed: str) -> UserMessage:
    """The last message of the request. `missing`: lines that the summary before lacked."""
    return UserMessage(request(int(window.summary * _WORDS_PER_TOKEN), missing, seed))


def reply_cap(own: int | None, window: ContextWindow) -> int:
    """The maximum of output tokens to send. `own`: that of the agent's own next request."""
    return max(own or 0, window.summary + window.reply)


def sections_of(reply: ModelReplied) -> str | None:
    """The summary in a reply; None where it lacks a section, or was cut off."""
    return None if reply.finish_reason in _CUT else sections_in(reply.text)


def missing_lines(lacking: Checklist) -> Sequence[str]:
    """What of the checklist that a summary lacks its model is asked for once more."""
    return lacking.within(REQUEST_TOKENS * CHARACTERS_PER_TOKEN)
