"""Orders that wait, on the terminal: what for, until when, and the command that lets them go on."""

from datetime import timedelta

import pytest

from mcc.contracts.fold import Fold
from mcc.contracts.journal import ORDER, AgentStarted, ControlApplied, Fact, ModelRetried, OrderResumed, OrderWaiting
from mcc.contracts.record import ChatRecord
from mcc.contracts.status import WaitingReason
from mcc.view.lines import Lines
from mcc.view.waiting import clock, paused_in, waiting_in_brief, what_to_do
from tests.mcc.view.test_shown_order import BEGAN, CHILD, CLAIMED, MASTER, ORDER_ID, QUEUED, journal, shown, started

PAUSED = OrderWaiting(reason=WaitingReason.PAUSED, message="the order is paused until someone resumes it")
LIMITED = OrderWaiting(reason=WaitingReason.RATE_LIMIT, message="it is busy", until=BEGAN + timedelta(hours=1))
GO_ON = f"mcc orders resume {ORDER_ID}"


def paused(control_id: str = "c1", kind: str = "pause") -> ControlApplied:
    return ControlApplied(control_id=control_id, control=kind)


def test_a_waiting_order_says_what_it_waits_for_and_how_it_goes_on() -> None:
    entries = journal(QUEUED, CLAIMED, (MASTER, started("Look")), (ORDER, paused()), (ORDER, PAUSED))
    heading, advice, master = shown(entries).splitlines()
    assert "… order 01890000 waiting (paused): the order is paused until someone resumes it" in heading
    assert "paused, waiting" not in heading
    assert advice.strip().startswith(f"go on: {GO_ON}")
    assert master.startswith("… master") and "paused" in master


def test_an_order_that_goes_on_gives_no_advice_any_more() -> None:
    resumed = OrderResumed(message="resumed on request")
    told = shown(journal(QUEUED, CLAIMED, (MASTER, started()), (ORDER, LIMITED), (ORDER, resumed)))
    assert "go on:" not in told and "queued again: resumed on request" in told


def test_the_plain_line_of_a_waiting_order_ends_with_what_to_do_however_long_the_reason_is() -> None:
    (line,) = _lines(OrderWaiting(reason=WaitingReason.PAUSED, message="because " * 40))
    assert GO_ON in line
    (line,) = _lines(LIMITED)
    assert f"waiting (rate_limit, until {clock(BEGAN + timedelta(hours=1))}): it is busy" in line and GO_ON in line


def test_a_long_wait_for_a_model_is_told_as_people_tell_it() -> None:
    retried = ModelRetried(round=1, attempt=1, model="a/b", error="It is busy.", wait_seconds=3600)
    told = shown(journal(QUEUED, CLAIMED, (MASTER, started()), (MASTER, retried)))
    assert "asks again in 1 h 00 min: It is busy." in told


@pytest.mark.parametrize("reason", list(WaitingReason))
def test_only_what_a_person_can_do_is_advised(reason: WaitingReason) -> None:
    advised = what_to_do("o1", reason)
    by_a_person = {WaitingReason.PAUSED, WaitingReason.RATE_LIMIT, WaitingReason.NOT_BEFORE}
    assert (advised is not None) is (reason in by_a_person)
    assert what_to_do("o1", None) is None


def test_the_moment_is_said_where_a_clock_ends_the_wait() -> None:
    assert waiting_in_brief(PAUSED) == "waiting (paused): the order is paused until someone resumes it"
    assert "until" in waiting_in_brief(LIMITED)


def test_a_running_order_is_called_paused_as_a_whole_or_by_those_of_its_agents_that_rest() -> None:
    assert paused_in(_record()) is None
    assert paused_in(_record((ORDER, paused()))) == "paused"
    assert paused_in(_record((CHILD, paused()))) == "1 of its agents paused: c"
    assert paused_in(_record((CHILD, paused()), (CHILD, paused("c2", "resume")))) is None


def _lines(waiting: OrderWaiting) -> list[str]:
    lines = Lines()
    return [line for entry in journal((ORDER, waiting)) if (line := lines.line_of(entry))]


def _record(*told: tuple[object, Fact]) -> ChatRecord:
    child: AgentStarted = started("Below", call_id="k")
    entries = journal(QUEUED, CLAIMED, (MASTER, started()), (CHILD, child), *told)  # type: ignore[arg-type]
    record = Fold.of(ORDER_ID, entries).record()
    assert record is not None
    return record
