"""Runs of `mcc doctor` as a child process, one at a time; what one found is told again for ten seconds."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from pydantic_core import from_json

from mcc.api.problems import Refusal
from mcc.contracts.examination import ExaminationTold
from mcc.contracts.shape import now
from mcc.settings import ServiceSettings

SECONDS = 30.0
"""How long an examination may take."""

KEPT_SECONDS = 10.0
"""For how long it is told again."""


class DoctorRuns:
    """Runs the command in a process of its own: it waits for what does not answer, and imports what the service does
    not need."""

    def __init__(self, command: Sequence[str] = (), seconds: float = SECONDS) -> None:
        self._command = command or (sys.executable, "-P", "-m", "mcc.cli.main", "doctor", "--json")
        self._seconds = seconds
        self._one_at_a_time = asyncio.Lock()
        self._looking: asyncio.Future[ExaminationTold] | None = None
        self._told: ExaminationTold | None = None
        self._until = float("-inf")

    async def examine(self, settings: ServiceSettings, *, fix: bool = False) -> ExaminationTold:
        """What it found; with `fix` always anew. Whoever asks while it looks gets what this look comes to, also where
        that is no answer. Raises `Refusal`."""
        if fix:
            return await self._look(settings, fix=True)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look(settings, fix=False))
            # Of those who asked nobody may be left to hear why it failed.
            self._looking.add_done_callback(lambda look: look.cancelled() or look.exception())
        return await asyncio.shield(self._looking)

    async def _look(self, settings: ServiceSettings, *, fix: bool) -> ExaminationTold:
        async with self._one_at_a_time:
            if self._told is None or fix or time.monotonic() >= self._until:
                self._told = await self._run([*self._command, *(["--fix"] if fix else [])], settings)
                self._until = time.monotonic() + KEPT_SECONDS
            return self._told

    async def _run(self, command: Sequence[str], settings: ServiceSettings) -> ExaminationTold:
        at = now()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "MCC_DATA_DIR": str(settings.data_dir)},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            raise Refusal(503, f"The doctor did not end within {self._seconds:g} s.") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        try:
            return ExaminationTold.model_validate({**from_json(output), "at": at})
        except (ValueError, TypeError):
            raise Refusal(503, f"The doctor ended with exit code {process.returncode} and said nothing.") from None
