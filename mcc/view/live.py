"""A live tree on the terminal at stderr: redrawn while an order runs, left in place when it ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from mcc.contracts.shape import now
from mcc.view import generation_tree
from mcc.view.generation import GenerationStory
from mcc.view.story import Story
from mcc.view.tree import FRAMES_PER_SECOND, fitting, tree

Aside: TypeAlias = Callable[[], AbstractContextManager[None]]


@contextmanager
def live_tree(story: Story) -> Iterator[Aside]:
    """Draw `story` several times a second; however the block ends, a complete last picture stays.

    Gives a context manager that removes the picture while other lines are written.
    """
    console, is_away = Console(stderr=True, highlight=False), False

    @contextmanager
    def aside() -> Iterator[None]:
        nonlocal is_away
        # On restart rich clears as many lines as the last picture had, so draw an empty one first: otherwise the lines
        # written meanwhile would be cleared.
        is_away = True
        live.refresh()
        live.stop()
        try:
            yield
        finally:
            is_away = False
            live.start(refresh=True)

    live = Live(
        console=console,
        refresh_per_second=FRAMES_PER_SECOND,
        get_renderable=lambda: Text("") if is_away else _fitting(story, console),
        transient=True,
        redirect_stdout=False,
    )
    try:
        with live, _stoppable(live):
            yield aside
    finally:
        console.print(_final_picture(story))


def _fitting(story: Story, console: Console) -> RenderableType:
    if isinstance(story, GenerationStory):
        return generation_tree.fitting(story, now(), console)
    return fitting(story, now(), console)


def _final_picture(story: Story) -> RenderableType:
    if isinstance(story, GenerationStory):
        return generation_tree.final_picture(story, now())
    return tree(story, now())


@contextmanager
def _stoppable(live: Live) -> Iterator[None]:
    """Make Ctrl-Z remove the picture and restore the cursor; the picture is drawn again when the process continues."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return

    def stop(number: int, frame: object) -> None:
        live.stop()
        # The default action first: the process must really stop, as the shell expects it.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)
        live.start(refresh=True)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
