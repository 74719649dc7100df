"""The screens of both command lines: what each of them prints of an order, and of its end."""

import json
from typing import Any

import pytest

from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.shape import to_json
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.view.screens import Shown, conclude, screen
from tests.mcc.view.order_journal import BEGAN, END, ORDER_ID, TURN, journal

ENTRIES = journal(*TURN, *END)


def ended(**fields: Any) -> WorkOrder:
    known = {"id": ORDER_ID, "session_id": ORDER_ID, "session_seq": 1, "created_at": BEGAN, **fields}
    return WorkOrder.model_validate({**NewOrder(prompt="Go.").model_dump(exclude={"session_id"}), **known})


DONE = ended(status=OrderStatus.SUCCEEDED, answer="It is **done**.\n\x1b[2J", usage=Usage(input_tokens=7))
FAILED = ended(status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail="401: wrong key", answer="So far.")


def show(shown: Shown) -> None:
    with screen(shown) as onto:
        for item in ENTRIES:
            onto.show(item)


@pytest.mark.parametrize("order", [DONE, FAILED], ids=["succeeded", "failed"])
def test_json_is_a_line_for_each_entry_and_a_last_one_for_the_order(
    capsys: pytest.CaptureFixture[str], order: WorkOrder
) -> None:
    show(Shown.of(as_json=True))
    assert conclude(order, Shown.JSON, "drone run") == (order is DONE)
    told = capsys.readouterr()
    *entries, last = [json.loads(line) for line in told.out.splitlines()]
    assert entries == [{"type": "entry", **json.loads(to_json(entry))} for entry in ENTRIES]
    assert last == {"type": "order", **json.loads(to_json(order))} and not told.err


def test_quiet_json_is_the_order_alone(capsys: pytest.CaptureFixture[str]) -> None:
    show(Shown.of(as_json=True, quiet=True))
    conclude(DONE, Shown.of(as_json=True, quiet=True), "mcc")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["type"] == "order"


def test_quiet_is_the_answer_alone_or_why_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = Shown.of(as_json=False, quiet=True)
    show(quiet)
    assert conclude(DONE, quiet, "mcc") and not conclude(FAILED, quiet, "drone run")
    told = capsys.readouterr()
    assert told.out == "It is **done**.\n⟦U+001B⟧[2J\nSo far.\n"
    assert told.err == f"drone run: order {ORDER_ID} failed (model_error): 401: wrong key\n"


def test_without_a_terminal_progress_is_plain_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show(Shown.of(as_json=False))
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 12
    assert isinstance(ENTRIES[-1].data, OrderFinished) and told.err.endswith("order succeeded: 0 tokens · $0\n")


def test_without_a_terminal_a_lost_service_is_told_once_and_its_return_too(capsys: pytest.CaptureFixture[str]) -> None:
    with screen(Shown.ALL) as onto:
        for problem in (OSError("refused"), OSError("refused"), None, None, OSError("gone")):
            onto.away(problem)
    assert capsys.readouterr().err.splitlines() == ["not connected: refused", "connected again", "not connected: gone"]
