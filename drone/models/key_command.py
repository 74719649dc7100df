"""Keys that live for a short time: a program of the operator prints one whenever it is needed."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drone.agent.model import BadReply, ModelError

SECONDS = 30.0
MOST_BYTES = 16_384
_SAID_CHARACTERS = 300
_LOOK_SECONDS = 0.05
_LEFT_SECONDS = 0.5
"""For what stands in the pipes when the command has ended."""


class KeyCommand:
    """The key that `argv` prints on one line, kept for `key_seconds` (None: until it is refused).

    It is run without a shell, in the root directory, within `SECONDS` and `MOST_BYTES`. `learn` hears of each key
    before anybody else does, to keep it out of texts.
    """

    def __init__(
        self,
        argv: Sequence[str],
        learn: Callable[[str], None],
        *,
        key_seconds: float | None = None,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._argv = (str(Path(argv[0]).expanduser()), *argv[1:])
        self._learn = learn
        self._key_seconds = key_seconds
        self._seconds = seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._key, self._until = "", 0.0

    async def key(self) -> str:
        """The key to ask with now. Raises `ModelError`."""
        async with self._lock:
            if not self._key or self._clock() >= self._until:
                key = await self._printed()
                self._learn(key)
                self._key = key
                self._until = float("inf") if self._key_seconds is None else self._clock() + self._key_seconds
            return self._key

    def refused(self, key: str) -> None:
        """The provider does not take this key any more: the next one is asked for anew."""
        if key == self._key:
            self._key = ""

    async def _printed(self) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise ModelError(f"{self._name} cannot be run: {error.strerror}.") from error
        try:
            async with asyncio.timeout(self._seconds):
                out, complaint = await _read(process)
                status = process.returncode if process.returncode is not None else await process.wait()
        except TimeoutError as late:
            raise BadReply(f"{self._name} printed no key within {self._seconds:g} seconds.") from late
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]  # its pipes may be open still; no public name closes
        if status != 0:
            said = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:_SAID_CHARACTERS]
            raise BadReply(f"{self._name} ended with status {status}{f': {said}' if said else ''}.")
        return self._one_line(out)

    def _one_line(self, out: bytes) -> str:
        """What was printed is never told: it may be a key all the same."""
        key = out.decode("ascii", "replace").strip()
        if not key or len(out) > MOST_BYTES or not (key.isascii() and key.isprintable()):
            raise ModelError(f"{self._name} did not print a key and nothing else, on one line.")
        return key

    @property
    def _name(self) -> str:
        return f"The key_command {os.path.basename(self._argv[0])}"


async def _read(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Both streams until the command has ended, a little more than `MOST_BYTES` of each kept.

    They may be open still: a helper that the command leaves running, as an agent of keys, holds them too.
    """
    assert process.stdout is not None and process.stderr is not None
    out, complaint = bytearray(), bytearray()
    reading = [
        asyncio.create_task(_keep(process.stdout, out)),
        asyncio.create_task(_keep(process.stderr, complaint)),
    ]
    try:
        left: set[asyncio.Task[None]] = set(reading)
        while left and process.returncode is None:  # `wait` would wait for the pipes as well
            _, left = await asyncio.wait(left, timeout=_LOOK_SECONDS)
        if left:
            await asyncio.wait(left, timeout=_LEFT_SECONDS)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    return bytes(out), bytes(complaint)


async def _keep(stream: asyncio.StreamReader, kept: bytearray) -> None:
    while piece := await stream.read(MOST_BYTES):
        kept += piece
        del kept[MOST_BYTES + 1 :]
