"""Somebody in the root of workspaces who swaps two of its names as fast as the kernel lets him."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

_LOOP = """
import ctypes, select, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
one, other = (argument.encode() for argument in sys.argv[1:])
swaps = 0
while swaps % 2 or swaps % 1_000 or not select.select([0], [], [], 0)[0]:
    if exchange(-100, one, -100, other, 2):
        sys.exit(f"renameat2: {ctypes.get_errno()}")
    swaps += 1
    if swaps == 1_000:
        print("ready", flush=True)
print(swaps)
"""


class Exchange:
    """Swaps `one` and `other` until the end of the block, in a process of its own; then all is as it was before."""

    def __init__(self, one: Path, other: Path) -> None:
        self._names = (str(one), str(other))
        self.swaps = 0

    def __enter__(self) -> "Exchange":
        self._process = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", _LOOP, *self._names),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        told, _ = self._process.communicate()
        self.swaps = int(told)
