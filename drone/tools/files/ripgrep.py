"""ripgrep as a prefilter: it names the files that hold a text which every match contains; the drone matches them."""

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
from drone.sandbox.places.paths import Workspace
from drone.tools.files.pattern import LinePattern
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
"""ripgrep searches plain text only, because its regular expressions, binary detection and ignore rules differ from this
package's."""

_LIMITS = {limit: value for limit, value in DEFAULT.of_each().items() if limit != resource.RLIMIT_NPROC}
"""The sandbox's limits, without that on processes: outside of the sandbox it counts all processes of the user."""

_FOUND, _NOTHING = 0, 1
_POLL_SECONDS = 0.05


class Ripgrep:
    """The program at `binary`. It only names files; tools read them through the workspace's own checks."""

    def __init__(self, binary: str, custody: Custody | None = None) -> None:
        self.custody = custody or Custody()
        self._binary = binary

    @classmethod
    def found(cls, path: str | None = None, custody: Custody | None = None) -> "Ripgrep | None":
        """The `rg` on `path` (colon-separated, None = the environment's PATH), None if there is none."""
        binary = shutil.which("rg", path=path)
        return None if binary is None else cls(binary, custody)

    def candidates(
        self, pattern: LinePattern, workspace: Workspace, paths: Sequence[str], stop: Event, until: float
    ) -> Sequence[str]:
        """Those of `paths` (relative to the workspace) that may hold a match; all of them when ripgrep fails.

        `until`: the deadline, on `time.monotonic`'s clock.
        """
        if not pattern.needed:
            return paths
        wanted = ("-e" if pattern.case_sensitive else "-ie", pattern.needed)
        named: set[bytes] = set()
        for batch in _batches(paths):
            matching = self._matching(wanted, workspace, batch, stop, until)
            if matching is None:
                return paths
            named.update(matching)
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
        """Ensure that the process ends with this drone, and put it under resource limits."""
        self.custody.watch(pid)
        try:
            with suppress(ProcessLookupError):
                put_limits(pid, _LIMITS)
            yield
        finally:
            self.custody.release(pid)


def _output(process: "subprocess.Popen[bytes]", stop: Event, until: float) -> bytes | None:
    """The process's standard output; None when it was killed because the call or its time ended."""
    while not stop.is_set() and time.monotonic() < until:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.communicate()
    return None


def _batches(paths: Iterable[str]) -> Iterator[list[bytes]]:
    """The paths as arguments, split into runs well below the kernel's limit on arguments."""
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
