"""ripgrep: which of many files hold the text that every match needs. What is in them is read and matched here."""

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event

from drone.sandbox.child import put_limits
from drone.sandbox.custody import Custody
from drone.sandbox.limits import DEFAULT
from drone.sandbox.paths import Workspace
from drone.tools.pattern import Pattern
from mcc.processors import PROCESSORS

_BATCH_BYTES = 500_000
_OPTIONS = (
    "--no-config",
    "--no-messages",
    "--files-with-matches",
    "--null",
    "--text",
    "--encoding=none",
    "--no-mmap",
    "--no-ignore",
    "--hidden",
    "--color=never",
    "--fixed-strings",
)
"""ripgrep looks for plain text only: of regular expressions, of binary files and of ignore files it and this package do
not think alike."""

_LIMITS = {limit: value for limit, value in DEFAULT.of_each().items() if limit != resource.RLIMIT_NPROC}
"""As in the sandbox, but for the number of processes: outside of it those of the whole user count."""

_FOUND, _NOTHING = 0, 1
_POLL_SECONDS = 0.05


class Ripgrep:
    """The program at `binary`. It only ever names files: their content comes through the workspace's own opens."""

    def __init__(self, binary: str, custody: Custody | None = None) -> None:
        self.custody = custody or Custody()
        self._binary = binary

    @classmethod
    def found(cls, path: str | None = None, custody: Custody | None = None) -> "Ripgrep | None":
        """The `rg` of `path` (colon-separated, None = the environment's PATH), if there is one."""
        binary = shutil.which("rg", path=path)
        return None if binary is None else cls(binary, custody)

    def candidates(
        self, pattern: Pattern, workspace: Workspace, paths: Sequence[str], stop: Event, until: float
    ) -> Sequence[str]:
        """Those of `paths` (relative to the workspace) that may hold a match; all of them when ripgrep cannot tell.

        `until`: when to give up, in seconds of `time.monotonic`.
        """
        if not pattern.needed:
            return paths
        wanted = ("-e" if pattern.case_sensitive else "-ie", pattern.needed)
        named: set[bytes] = set()
        for batch in _batches(paths):
            found = self._matching(wanted, workspace, batch, stop, until)
            if found is None:
                return paths
            named.update(found)
        return [path for path in paths if b"./" + os.fsencode(path) in named]

    def _matching(
        self, wanted: Sequence[str], workspace: Workspace, batch: Sequence[bytes], stop: Event, until: float
    ) -> Iterable[bytes] | None:
        try:
            with PROCESSORS.all_available():
                process = subprocess.Popen(
                    [self._binary, *_OPTIONS, *wanted, "--", *batch],
                    cwd=f"/proc/self/fd/{workspace.fd}",
                    env={"LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError:
            return None
        with process, self._held(process.pid):
            output = _output(process, stop, until)
        if output is None or process.returncode not in (_FOUND, _NOTHING):
            return None
        return output.split(b"\0")

    @contextmanager
    def _held(self, pid: int) -> Iterator[None]:
        """It ends with this drone, and takes no more of the machine than it may."""
        self.custody.watch(pid)
        try:
            with suppress(ProcessLookupError):
                put_limits(pid, _LIMITS)
            yield
        finally:
            self.custody.release(pid)


def _output(process: "subprocess.Popen[bytes]", stop: Event, until: float) -> bytes | None:
    """What the process wrote; None when it was killed because nobody waits or its time is over."""
    while not stop.is_set() and time.monotonic() < until:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.communicate()
    return None


def _batches(paths: Iterable[str]) -> Iterator[list[bytes]]:
    """Arguments for one run each, well below what the kernel takes."""
    batch: list[bytes] = []
    size = 0
    for path in paths:
        argument = b"./" + os.fsencode(path)
        if size + len(argument) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(argument)
        size += len(argument) + 9
    if batch:
        yield batch
