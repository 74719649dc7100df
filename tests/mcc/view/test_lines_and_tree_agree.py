"""Two renderings of one journal: whatever an entry's plain line tells, the live tree tells too, kind by kind."""

import io
import re
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from mcc.contracts.entry import ORDER, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStarted, AgentStep, ControlApplied, GateChecked, ToolFinished
from mcc.contracts.model_facts import ModelFellBack, ModelRetried, ModelStarted
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.usage import Usage
from mcc.contracts.waiting import TOLD_BY, after_entry
from mcc.contracts.waits import UNTOLD, Queued, WaitsFor, for_workspace, in_queue
from mcc.view.lines import Lines
from mcc.view.story import Story
from mcc.view.tree import OrderPicture
from tests.mcc.contracts.samples import FACTS
from tests.mcc.view.order_journal import (
    BEGAN,
    CHILD,
    CLAIMED,
    MASTER,
    ORDER_ID,
    QUEUED,
    call,
    journal,
    reply,
    result,
    shown,
    started,
)

TOLD_OTHERWISE: Mapping[str, frozenset[str]] = {
    "order.queued": frozenset({"order", "queued"}),
    "order.claimed": frozenset({"order", "claimed", "by"}),
    "order.waiting": frozenset({"order", "go", "on"}),
    "agent.started": frozenset({"starts", "with", "record", "c"}),
    "agent.finished": frozenset({"completed"}),
    "tool.finished": frozenset({"failed", "ended", "with", "status"}),
    "model.retried": frozenset({"is"}),
    "approval.requested": frozenset({"asks", "whether"}),
    "question.asked": frozenset({"asks"}),
}
"""Words of a plain line for which the tree has a mark, a figure, a place or other words, by kind."""

BEGIN_OR_END = frozenset({"model.started", "model.replied", "tool.finished"})
"""Kinds that begin or end what the tree shows as running, for which a line has nothing to add."""


def origin_of(fact: Fact) -> Origin:
    return ORDER if fact.kind.startswith("order.") else CHILD


def before(fact: Fact) -> Sequence[tuple[Origin, Fact]]:
    """A journal in which this fact can be the next."""
    if fact.kind in ("order.queued", "order.claimed"):
        return [QUEUED][: fact.kind == "order.claimed"]
    begun: list[tuple[Origin, Fact]] = [QUEUED, CLAIMED, (MASTER, started()), (MASTER, call("k", "subagent"))]
    if fact.kind == "agent.started":
        return begun
    begun.append((CHILD, started("Look", "k")))
    if isinstance(fact, ModelRetried):
        begun.append((CHILD, ModelStarted(round=1, attempt=fact.attempt, model=fact.model)))
    if isinstance(fact, ToolFinished):
        begun.append((CHILD, call(fact.call_id, fact.name)))
    return begun


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.replace("…", "")))


def told(fact: Fact) -> tuple[str | None, str, str]:
    """Of an entry with this fact: its plain line, and the tree before and after it."""
    entries = journal(*before(fact), (origin_of(fact), fact))
    lines = Lines()
    *_, line = [lines.line_of(entry) for entry in entries]
    return line, drawn(entries[:-1]), drawn(entries)


def drawn(entries: Sequence[Entry]) -> str:
    return shown(list(entries), width=4_000) if entries else ""


MORE = (
    ModelRetried(round=1, attempt=3, model="a/b", error="429 Too Many Requests at api.example.org", wait_seconds=8),
    ModelRetried(round=1, attempt=1, model="a/b", error="503 Service Unavailable", wait_seconds=0.5),
    ModelRetried(round=1, attempt=1, model="a/b", error="fell silent for 60 seconds in its reply", wait_seconds=3_600),
    ModelFellBack(round=1, source="a/b", target="c/d", error="refused at api.example.org"),
    result("1", "read_file", "there is no such file", is_error=True),
    ToolFinished(call_id="1", name="run_shell", content="", is_error=False, exit_code=7),
    ToolFinished(call_id="1", name="run_shell", content="", is_error=False, artifact="0123456789abcdef0"),
    GateChecked(attempt=2, ok=False, errors=("Read it.", "Name its parts.")),
    GateChecked(attempt=2, ok=True, warnings=("A heading was added.",)),
    GateChecked(check_only=True, attempt=0, ok=False, errors=("Not yet.",)),
    ControlApplied(control_id="1", control="pause", reason="Not before Monday."),
    AgentStep(name="nudge", message="Try another way."),
    AgentStep(name="definition_warning", message=".mcc/agents/a.md: not used"),
    AgentStep(name="cut_short", message="The reply ended early: length."),
)


def alone(fact: Fact) -> Fact:
    """The sample of a kind, fitted to `before`: nothing was spent, and the agent works on no document's node."""
    match fact:
        case OrderFinished():
            return fact.model_copy(update={"usage": Usage()})
        case AgentStarted():
            return fact.model_copy(update={"node": None})
    return fact


KINDS = [*map(alone, FACTS), *MORE]


@pytest.mark.parametrize("fact", KINDS, ids=lambda fact: fact.kind)
def test_the_tree_tells_what_the_plain_line_tells(fact: Fact) -> None:
    line, _, after = told(fact)
    said = (line or "")[len("12:00:00 ") :].replace(ORDER_ID, ORDER_ID[-12:])
    assert not words(said) - words(after) - TOLD_OTHERWISE.get(fact.kind, frozenset())


@pytest.mark.parametrize("fact", KINDS, ids=lambda fact: fact.kind)
def test_an_entry_changes_the_tree_if_it_has_a_line_and_otherwise_only_where_a_state_changes(fact: Fact) -> None:
    line, earlier, after = told(fact)
    seen = re.sub(r"[\d.]+ s ", "", earlier) != re.sub(r"[\d.]+ s ", "", after)
    assert seen == (line is not None) or (seen and fact.kind in BEGIN_OR_END)


WAITS = [fact for fact in KINDS if after_entry(fact, BEGAN) is not None]


@pytest.mark.parametrize("fact", WAITS, ids=lambda fact: fact.kind)
def test_what_an_order_waits_for_reads_alike_in_line_and_tree_and_in_the_order_itself(fact: Fact) -> None:
    """The commands that show and list orders print `WorkOrder.waits_for`, which is made of the last entry."""
    line, _, after = told(fact)
    waits = after_entry(fact, BEGAN)
    assert waits is not None and line is not None
    said = words(waits.message) - TOLD_OTHERWISE.get(fact.kind, frozenset())
    assert not said - words(line) and not said - words(after)


def test_every_kind_after_which_an_order_waits_is_among_the_samples() -> None:
    assert {fact.kind for fact in WAITS} == TOLD_BY
    assert {fact.kind for fact in KINDS if fact.kind.startswith("order.wait")} <= TOLD_BY


UNTOLD_WAITS = [
    in_queue(Queued("default", earlier_turn=ORDER_ID)),
    in_queue(Queued("default", position=3)),
    in_queue(Queued("default", position=3, leaving=2)),
    in_queue(Queued("default", workspace_of=ORDER_ID, drones=1)),
    in_queue(Queued("default", position=12, drones=2, slots=8, active=8)),
]


@pytest.mark.parametrize("waits", UNTOLD_WAITS, ids=lambda waits: waits.kind)
def test_what_no_journal_tells_stands_in_line_and_tree(waits: WaitsFor) -> None:
    story = Story.of(journal(QUEUED))
    story.waits_for = waits
    assert waits.kind in UNTOLD
    assert waits.message in drawn_of(story) and f"order {waits.message}" in (Lines().waits_line(waits) or "")


def test_a_place_further_ahead_is_no_new_line_and_a_claim_ends_the_wait() -> None:
    lines, (queued, claimed) = Lines(), journal(QUEUED, CLAIMED)
    assert lines.waits_line(UNTOLD_WAITS[4]) and not lines.waits_line(UNTOLD_WAITS[4])
    assert lines.waits_line(UNTOLD_WAITS[1]) and not lines.waits_line(None) and lines.waits_line(UNTOLD_WAITS[4])
    story = Story.of([queued])
    story.waits_for = UNTOLD_WAITS[4]
    story.add(claimed)
    assert "12th in line" not in drawn_of(story)


def test_a_call_that_waits_for_the_workspace_is_told_beside_the_drone() -> None:
    story = Story.of(journal(QUEUED, CLAIMED, (MASTER, started())))
    story.waits_for = for_workspace(ORDER_ID)
    assert f"on drone-1, waits for the workspace of order {ORDER_ID[-12:]}" in drawn_of(story)


def drawn_of(story: Story) -> str:
    screen = io.StringIO()
    Console(file=screen, width=400).print(OrderPicture(story, BEGAN))
    return screen.getvalue()


def test_a_retry_stays_told_while_the_next_try_waits_and_goes_with_the_reply() -> None:
    """The next try is written down together with the retry before it."""
    again = ModelStarted(round=1, attempt=4, model="a/b")
    retried = (*before(MORE[0]), (CHILD, MORE[0]), (CHILD, again))
    assert "asked again in 8 s (4th try): 429" in drawn(journal(*retried))
    assert "asked again" not in drawn(journal(*retried, (CHILD, reply(5))))


def test_a_retry_reads_alike_in_both() -> None:
    line, _, after = told(MORE[0])
    why = "asked again in 8 s (4th try): 429 Too Many Requests at api.example.org"
    assert line is not None and line.endswith(f"a/b is {why}") and f"◷ {why}" in after
