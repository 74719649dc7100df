"""The log lines of a process."""

import json
import subprocess
import sys

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
