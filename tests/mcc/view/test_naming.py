"""Agents of one order under the names by which people see and address them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from mcc.cli.orders import _record_of
from mcc.contracts.entry import Origin
from mcc.contracts.fold import Fold
from mcc.contracts.record import ChatRecord
from mcc.view.lines import Lines
from mcc.view.naming import by_name
from tests.mcc.view.order_journal import CHILD, MASTER, TURN, journal, shown, started

SECOND = Origin(record_id="c2", parent_id="m", agent="explore", depth=1)
ENTRIES = journal(*TURN, (SECOND, started("Look south")))


def record() -> ChatRecord:
    fold = Fold(ENTRIES[0].order_id)
    for entry in ENTRIES:
        fold.add(entry)
    found = fold.record()
    assert found is not None
    return found


def test_lines_tree_and_commands_call_an_agent_the_same() -> None:
    lines = Lines()
    said = [line for entry in ENTRIES if (line := lines.line_of(entry))]
    assert "explore 2: starts" in said[-1] and "explore 2  Look south" in shown(ENTRIES)
    assert {name: one.id for name, one in by_name(record()).items()} == {
        "master": MASTER.record_id,
        "explore": CHILD.record_id,
        "explore 2": SECOND.record_id,
    }


def test_an_agent_is_addressed_by_its_name_and_an_unknown_one_is_told_with_those_at_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = cast(Any, SimpleNamespace(orders=SimpleNamespace(record=lambda order_id: record())))
    assert _record_of(client, "o", "explore 2") == "c2"
    assert _record_of(client, "o", None) is None
    with pytest.raises(typer.Exit):
        _record_of(client, "o", "explore 3")
    assert "at work are: master, explore, explore 2" in capsys.readouterr().err
