"""The cost of redacting secrets: per large tool result, per piece of a stream, per order of two calls."""

import asyncio
import gc
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, Model, WantedCall
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import Line, ScriptedModel
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.redaction import Redactor
from mcc.transcript.messages import ToolResults

RESULT_CHARACTERS = 190_000
PIECE_CHARACTERS = 5
ORDERS = 60
ROUNDS = 5
COUNTS = (1, 6, 30)
"""Numbers of secrets that a drone knows; six are usual."""

PROSE = "The harbour has two quays, and `quay.py:12` counts the cranes on them (about 40 %). "


class SameModel:
    """A registry that resolves every name to one model."""

    def __init__(self, model: Model) -> None:
        self.default = model

    def get(self, name: str) -> Model:
        return self.default

    async def aclose(self) -> None:
        """There is nothing to close."""


class SecretSettings(Settings):
    """Settings of a drone that knows `slots - 1` secrets, whatever the environment of the benchmark contains."""

    def secrets(self) -> frozenset[str]:
        return frozenset(secrets.token_urlsafe(32) for _ in range(self.slots - 1))


def main() -> None:
    text = (PROSE * (RESULT_CHARACTERS // len(PROSE) + 1))[:RESULT_CHARACTERS]
    for number in COUNTS:
        _measure_redactor(text, number)
    with tempfile.TemporaryDirectory() as folder:
        bare, known = (asyncio.run(_orders(Path(folder), number)) for number in (0, COUNTS[1]))
    print(f"an order of two calls, journal in memory: {bare:.2f} ms without, {known:.2f} ms with {COUNTS[1]} secrets")


def _measure_redactor(text: str, number: int) -> None:
    known = [secrets.token_urlsafe(32) for _ in range(number)]
    redactor = Redactor(known)
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, 20_000, PIECE_CHARACTERS)]
    made, whole = _cpu_ms(lambda: Redactor(known)), _cpu_ms(lambda: redactor.text(text))
    piece_us = _cpu_ms(lambda: _streamed(redactor, pieces)) / len(pieces) * 1_000
    print(f"{number:3} secrets: {made:5.1f} ms to set up, {whole:5.2f} ms per result, {piece_us:5.1f} µs per piece")


def _streamed(redactor: Redactor, pieces: list[str]) -> None:
    stream = redactor.stream()
    for piece in pieces:
        stream.feed(piece)


async def _orders(folder: Path, number: int) -> float:
    """Milliseconds of CPU per order that reads a file and answers; the minimum of `ROUNDS` rounds."""
    workspace = folder / f"workspace-{number}"
    workspace.mkdir()
    (workspace / "quay.py").write_text(PROSE * 20)
    settings = SecretSettings(data_dir=folder / "data", workspace_roots=(workspace,), slots=number + 1)

    def reply(ask: Ask) -> Line:
        if isinstance(ask.messages[-1], ToolResults):
            return Line(PROSE * 2)
        return Line("I look.", (WantedCall("read_file", {"path": "quay.py"}),))

    models: Any = SameModel(ScriptedModel(reply, keep_asks=False))
    crew = Crew(settings, Definitions.load(None), models)

    async def one() -> None:
        order = order_from("Count the cranes", workspace, "master", None, [])
        outcome = await crew.run(order, OrderContext(MemoryJournal(order.id)))
        if outcome.answer is None:
            raise RuntimeError(f"an order of the benchmark failed: {outcome.detail}")

    await one()
    least = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        begun = time.process_time()
        for _ in range(ORDERS):
            await one()
        least = min(least, (time.process_time() - begun) * 1_000 / ORDERS)
    await crew.close()
    return least


def _cpu_ms(function: Callable[[], object]) -> float:
    function()
    least = float("inf")
    for _ in range(5):
        begun = time.process_time()
        function()
        least = min(least, time.process_time() - begun)
    return least * 1_000
