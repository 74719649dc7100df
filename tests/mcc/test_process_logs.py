"""The log lines of a process."""

import json
import re
import subprocess
import sys

import pytest

from mcc.contracts.invisible import escape_invisible
from mcc.logs import LONGEST_FIELD

CODE = """
import structlog
from mcc.logs import set_up_logs
from mcc.redaction import Redactor
secret = "s" + "3cret" * 4
set_up_logs("info", lambda: Redactor([secret]))
structlog.get_logger("drone").warning("read", text="x" * {before} + secret + "y" * 10_000)
"""


def test_a_long_value_is_cut_after_its_secrets_are_taken_out() -> None:
    code = CODE.format(before=LONGEST_FIELD - 15)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    text = json.loads(done.stderr)["text"]
    assert len(text) == LONGEST_FIELD + 1
    assert "s3cret" not in text
    assert "[redacted]" in text


HOSTILE = "a\x1b]0;b\x07\u202ec\x7f\u200b\n2026-01-31 [info] paid"
SAYING = """
import logging
import structlog
from mcc.logs import set_up_logs
set_up_logs("info", on_terminal={on_terminal})
structlog.get_logger("drone").warning({text!r}, field={text!r})
logging.getLogger("other").error("%s", {text!r})
try:
    raise ValueError({text!r})
except ValueError:
    logging.getLogger("other").exception("broke")
"""


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_log_holds_all_of_it_and_nothing_that_a_terminal_obeys(on_terminal: bool) -> None:
    code = SAYING.format(on_terminal=on_terminal, text=HOSTILE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    # Colours are the renderer's own.
    plain = done.stderr if not on_terminal else _COLOUR.sub("", done.stderr)
    assert all(one.isprintable() or one == "\n" for one in plain)
    if not on_terminal:
        first, second, third = map(json.loads, done.stderr.splitlines())
        assert first["event"] == first["field"] == second["event"] == HOSTILE and HOSTILE in third["exception"]
        return
    seen = escape_invisible(HOSTILE)
    assert plain.count(seen.replace("\n", "⟦U+000A⟧")) == 3 and f"ValueError: {seen}" in plain
    assert not any(line.startswith("2026-01-31 [info]") for line in plain.partition("Traceback")[0].splitlines())


_COLOUR = re.compile("\x1b\\[[0-9;]*m")
