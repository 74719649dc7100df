"""A turn's memory is freed when the turn ends, without a run of the garbage collector."""

import gc
import weakref

from drone.agent.ports.journal import MemoryJournal
from drone.models.scripted import Line, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools
from tests.drone.agent.lone import Lone


async def lookup(q: str) -> str:
    """Look something up."""
    return f"{q} is known"


async def journal_of_a_turn() -> "weakref.ref[MemoryJournal]":
    model = ScriptedModel([Line(calls=(call("lookup", q="it"),)), "Done."], keep_asks=False)
    lone = Lone(model, tools=FunctionTools([lookup]))
    assert (await lone.run()).completed
    return weakref.ref(lone.journal)


async def test_the_journal_of_an_ended_turn_is_gone_with_its_last_user() -> None:
    await journal_of_a_turn()
    gc.disable()
    try:
        assert (await journal_of_a_turn())() is None
    finally:
        gc.enable()
