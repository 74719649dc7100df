"""What others wrote, on its way to a person's terminal: nothing in it is obeyed, hidden or reordered."""

import json
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from drone.local_run import ShownJournal
from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Origin
from mcc.contracts.invisible import unescape_invisible
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import to_json
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN, Served
from mcc.view.output import clean, clean_json
from mcc.view.screens import Shown, screen
from tests.mcc.cli.in_process import CliRunner

OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = "\u061c\u200b\u200e\u200f\u2028\u2029\u2060\ufeff"


def _commands(character: str) -> bool:
    code = ord(character)
    return (
        (unicodedata.category(character) == "Cc" and character not in "\t\n")
        or unicodedata.bidirectional(character) in OVERRIDES
        or 0xE0000 <= code <= 0xE0FFF
        or character in MARKS
    )


@cache
def commands() -> str:
    return "".join(filter(_commands, map(chr, (*range(0xD800), *range(0xE000, 0x110000)))))


@cache
def nasty() -> str:
    return f"before \x1b[2J\x9b31m\u202egnp.exe\u2069 \U000e0041\U000e007f {commands()} été 👩\u200d💻 \U0001f3f4 after"


def shown_raw(text: str) -> set[str]:
    return set(text) & set(commands())


def test_json_for_a_terminal_reads_the_same_and_commands_nothing() -> None:
    for value in (nasty(), {nasty(): [nasty(), {"a": "\ud800" + nasty()}]}, [nasty() * 50]):
        told = clean_json(to_json(value))
        assert json.loads(told) == json.loads(to_json(value).replace(b"\\ud800", b"\\ufffd"))
        assert not shown_raw(told.decode())


def test_text_for_a_terminal_keeps_everything_and_commands_nothing() -> None:
    cleaned = clean(nasty())
    assert not shown_raw(cleaned)
    assert cleaned.startswith("before ⟦U+001B⟧[2J") and cleaned.endswith("👩⟦U+200D⟧💻 \U0001f3f4 after")
    assert unescape_invisible(cleaned) == nasty()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str, str]]:
    """A service with an order that is hostile wherever text can be, its id and that of its session."""
    store = temporary_store()
    new = NewOrder(prompt=nasty().replace("\x00", ""), labels=("a\u202eb\x9b",))
    order = store.orders.place(new, by=Actor("operator")).order
    held = HandDrone(store).claim(order.id)
    held.start()
    held.write(AgentStep(name="note", message=nasty()))
    held.finish(nasty())
    with Served(store, tmp_path_factory.mktemp("service")) as served:
        yield served, order.id, order.session_id


PRINTING = [
    ("orders", "record", "ORDER"),
    ("orders", "show", "ORDER", "--json"),
    ("orders", "show", "ORDER"),
    ("orders", "list", "--json"),
    ("orders", "list"),
    ("orders", "watch", "ORDER", "--json"),
    ("orders", "watch", "ORDER"),
    ("sessions", "list", "--json"),
    ("sessions", "list"),
    ("sessions", "show", "SESSION", "--json"),
    ("sessions", "show", "SESSION"),
]


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_no_command_prints_what_a_terminal_would_obey(
    told: tuple[Served, str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    served, order_id, session_id = told
    ids = {"ORDER": order_id, "SESSION": session_id}
    environment = {"MCC_URL": served.url, "MCC_TOKEN": TOKEN, "MCC_DATA_DIR": str(tmp_path)}
    done = CliRunner().invoke(app, [ids.get(word, word) for word in command], env=environment)
    assert done.exit_code == 0, done.output
    assert not shown_raw(done.stdout) and not shown_raw(done.stderr)
    assert "before" in done.stdout
    if command[-1] == "--json" or command[1] == "record":
        whole = [json.loads(line) for line in done.stdout.splitlines()]
        assert any(one.startswith(nasty()[:20]) for one in strings(whole)), "what was written can be read again"


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


async def test_the_journal_of_drone_run_is_printed_so_as_well(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with screen(Shown.JSON) as onto:
        journal = ShownJournal("order-1", onto)
        await journal.write(Origin(record_id="record-1", agent="master"), AgentStep(name="note", message=nasty()))
    out = capfdbinary.readouterr().out.decode()
    assert json.loads(out)["data"]["message"] == nasty()
    assert not shown_raw(out)
