"""Answers as a terminal shows them."""

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from mcc.view.output import listed_id

ANSWER = "Use `x = 1`:\n\n```python\nprint(1)\n```\n\n[bold]kept[/bold] \x1b[41m"


def on_a_terminal(program: str, **variables: str) -> bytes:
    """What a Python program writes to its terminal. `variables`: more of its environment."""
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm", **variables}
    ):
        os.close(theirs)
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:
            os.close(ours)
    return shown


def test_code_in_an_answer_has_no_background_of_its_own() -> None:
    shown = on_a_terminal(f"from mcc.cli.command import print_markdown; print_markdown({ANSWER!r})")
    assert b"x = 1" in shown and b"[bold]kept[/bold]" in shown
    colours = [code for part in shown.split(b"\x1b[")[1:] for code in part.partition(b"m")[0].split(b";")]
    assert colours and not [code for code in colours if len(code) > 1 and code.startswith((b"4", b"10"))]


HIDING = """<!-- comment --> <b>bold</b> &#8238;reversed &ZeroWidthSpace;word ![picture](https://e.test/x "t")

[link]: https://e.test/defined

<div>block</div>

\x1b]0;title\x07 \u202e
"""


def test_nothing_of_an_answer_is_left_out_or_becomes_a_command() -> None:
    told = on_a_terminal(f"from mcc.cli.command import print_markdown; print_markdown({HIDING!r})").decode()
    shown = re.sub("\x1b\\[[0-9;]*m", "", told).replace("\r\n", "\n")
    assert all(one.isprintable() or one == "\n" for one in shown)
    for part in ("<!-- comment -->", "<b>bold</b>", "&#8238;reversed", "&ZeroWidthSpace;word", "https://e.test/x"):
        assert part in shown, part
    for part in ("https://e.test/defined", "<div>block</div>", "⟦U+001B⟧]0;title⟦U+0007⟧ ⟦U+202E⟧"):
        assert part in shown, part


def test_what_a_tool_wrote_never_stands_where_a_step_of_a_log_begins() -> None:
    written = "       │ word " + "    99  12:00:00  master  delete_file " * 4
    program = f"from mcc.view.paging import show_paged; show_paged([('', {written!r})], indent=7)"
    lines = on_a_terminal(program, COLUMNS="60").decode().replace("\r", "").splitlines()
    assert len(lines) > 2 and all(line.startswith(" " * 7) for line in lines)


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not on PATH")
def test_what_is_longer_than_the_screen_is_paged_in_colours() -> None:
    program = (
        f"from mcc.view.paging import show_paged; show_paged([('bold', f'line {{n}} {'x' * 9}') for n in range(99)])"
    )
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("LESS", "PAGER")}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, env={**environment, "TERM": "xterm"}
    ) as shower:
        os.close(theirs)
        shown = b""
        while b"line 9 " not in shown:
            shown += os.read(ours, 65_536)
        os.write(ours, b"q")
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65_536):
                shown += piece
        os.close(ours)
    assert shower.returncode == 0
    assert b"\x1b[1mline 9 " in shown and b"ESC[" not in shown
    assert b"line 98 " not in shown


SENTENCE = "no limit of a whole call for memory: " + "the cgroups here have none of the controllers that it takes " * 2
SENTENCES = f"""
from mcc.cli.command import print_wrapped
from mcc.cli.doctor import print_finding
print_finding("warning", "sandbox", {SENTENCE!r}, "run drones as a user of their own")
print_wrapped("error: counter.md, line 4: " + {SENTENCE!r})
"""


@pytest.mark.parametrize("columns", [40, 80])
def test_no_word_of_a_finding_or_a_message_is_broken_by_the_edge_of_the_window(columns: int) -> None:
    shown = on_a_terminal(SENTENCES, COLUMNS=str(columns), NO_COLOR="1").decode()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").splitlines()
    assert len(lines) > 4 and max(map(len, lines)) <= columns
    assert "".join(lines).count("controllers") == 4 and all(line[0] in "!e " for line in lines)


def test_lists_name_things_as_trees_do_on_a_terminal_and_whole_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    full_id = "01a220f2-25db-7bb4-a7a3-b08f69d8a5bd"
    shown = on_a_terminal(f"from mcc.view.output import listed_id; print(listed_id({full_id!r}))")
    print(listed_id(full_id))
    assert (shown.decode().strip(), capsys.readouterr().out.strip()) == ("b08f69d8a5bd", full_id)
