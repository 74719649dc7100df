"""What an order waits for by the last entry of its journal: a parked order, a model that is asked again, a person."""

from datetime import datetime, timedelta

from mcc.contracts import durations
from mcc.contracts.fact import Fact
from mcc.contracts.inbox_facts import OUTLINE, ApprovalRequested, QuestionAsked
from mcc.contracts.journal import ControlApplied
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.order_facts import OrderWaiting
from mcc.contracts.waits import KINDS, WaitsFor

TOLD_BY = frozenset(
    {OrderWaiting.kind, ModelRetried.kind, ApprovalRequested.kind, QuestionAsked.kind, ControlApplied.kind}
)
"""Kinds of entries after which an order may wait."""


def after_entry(fact: Fact, at: datetime, *, is_subagent: bool = False) -> WaitsFor | None:
    """What an order waits for whose last entry, written `at` this time, holds this fact; None where it goes on."""
    match fact:
        case OrderWaiting():
            return WaitsFor(kind=KINDS[fact.reason], until=fact.until, tries=fact.tries, message=fact.message)
        case ModelRetried():
            until = at + timedelta(seconds=fact.wait_seconds)
            return WaitsFor(kind="provider", until=until, tries=fact.attempt + 1, message=retry_in_words(fact))
        case ApprovalRequested():
            return WaitsFor(kind="person", message=wish_in_words(fact))
        case QuestionAsked():
            return WaitsFor(kind="person", message=f"asks: {fact.question}")
        case ControlApplied(control="pause") if not is_subagent:
            return WaitsFor(kind="paused", message=f"paused{f': {fact.reason}' if fact.reason else ''}")
    return None


def retry_in_words(retried: ModelRetried) -> str:
    return f"{retry_in_brief(retried)}: {retried.error}"


def retry_in_brief(retried: ModelRetried) -> str:
    """When a model is asked again and for which time; why is to follow."""
    return f"asked again in {durations.wait(retried.wait_seconds)} ({durations.ordinal(retried.attempt + 1)} try)"


def wish_in_words(requested: ApprovalRequested) -> str:
    is_outline = requested.tool == OUTLINE and not requested.call_id
    return "asks whether " + ("the outline may count" if is_outline else f"it may use {requested.tool}")
