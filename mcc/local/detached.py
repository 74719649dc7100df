"""A family in the background: `mcc up` once more, in a session of its own, until it is ready or has failed."""

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
"""What the supervisor itself has to say, in `logs` of the data directory."""


@dataclass(frozen=True, slots=True)
class Started:
    """`told`: the line of JSON that it printed once it was ready, "" where it ended with `code` instead.

    `said`: what it had to say meanwhile.
    """

    facts: str
    said: str
    code: int = 0


def start_detached(arguments: Sequence[str], data_dir: Path) -> Started:
    """`mcc up --json` with these arguments; it stays when this process ends. An interrupted start ends it.

    Raises `UnusableDirectory`, and `FamilyRunning`, whose log is left alone.
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
