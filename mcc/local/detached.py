"""`mcc up --detach`: starts `mcc up` in a session of its own, and waits until that is ready or has failed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcc.local.child import LogFile
from mcc.local.data_dir import prepare_directory
from mcc.local.presence import refuse_second

LOG = "up.log"
"""The log of the supervisor itself, in `logs` of the data directory."""


@dataclass(frozen=True, slots=True)
class Started:
    """How a start in the background went. `facts`: the line of JSON printed once it was ready, "" where it ended with
    `code` instead. `log`: what it printed until then."""

    facts: str
    log: str
    code: int = 0


def start_detached(arguments: Sequence[str], data_dir: Path) -> Started:
    """Start `mcc up --json` with these arguments; it stays when this process ends. Interrupting the start stops it.

    Raises `UnusableDirectory`, and `FamilyRunning`; then the log of the running family is not touched.
    """
    refuse_second(data_dir)
    prepare_directory(data_dir)
    prepare_directory(data_dir / "logs")
    log = LogFile(data_dir / "logs" / LOG)
    log.rotate()
    output = log.open()
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mcc.cli.main", "up", "--json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        )
    finally:
        os.close(output)
    assert process.stdout is not None
    try:
        with process.stdout:
            facts = process.stdout.readline()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    return Started(facts, log.tail(100), 0 if facts else process.wait())
