"""The worktrees of an interrupted order are saved and deleted, unless another process works there."""

import asyncio
import os

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said
from tests.drone.worktrees.said_by_models import hire, script, write
from tests.drone.worktrees.workshop import ORDER, Workshop


async def broken_off(shop: Workshop) -> None:
    """Cancel the order after its child has written a file, while the model is asked again."""
    written, never = asyncio.Event(), asyncio.Event()
    said = script([hire("x"), "done"], x=[write("x.txt", "x\n"), Line("?", gate=never)])

    def author(ask: Ask) -> Said:
        line = said(ask)
        if isinstance(line, Line) and line.gate is never:
            written.set()
        return line

    working = asyncio.create_task(shop.run(author))
    await written.wait()
    working.cancel()
    await asyncio.wait((working,))


async def test_what_was_not_finished_is_saved_on_its_ref(shop: Workshop) -> None:
    await broken_off(shop)
    assert len(shop.left) == 1
    assert await shop.clear_up() == 0
    (ref,) = shop.refs
    assert shop.scene.git("show", f"{ref}:x.txt") == "x" and not (shop.scene.root / "x.txt").exists()
    assert shop.left == [] and shop.home.orders() == []


async def test_nothing_is_deleted_while_another_process_works_there(shop: Workshop) -> None:
    await broken_off(shop)
    lock = shop.home.hold(ORDER)
    assert lock is not None and await shop.clear_up() == 1 and len(shop.left) == 1
    os.close(lock)
    assert await shop.clear_up() == 0


async def test_what_cannot_be_saved_is_not_deleted(shop: Workshop) -> None:
    await broken_off(shop)
    os.rename(shop.scene.root / ".git", shop.scene.root / "away")
    assert await shop.clear_up() == 1 and len(shop.left) == 1
    os.rename(shop.scene.root / "away", shop.scene.root / ".git")
    assert await shop.clear_up() == 0 and len(shop.refs) == 1
