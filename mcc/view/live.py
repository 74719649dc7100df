"""A live tree on the terminal behind stderr: redrawn while an order runs, left standing when that ends."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from mcc.contracts.shape import now
from mcc.view import generation_tree
from mcc.view.generation import Generation
from mcc.view.story import Story
from mcc.view.tree import FRAMES_PER_SECOND, fitting, tree

Aside: TypeAlias = Callable[[], AbstractContextManager[None]]


@contextmanager
def live_tree(story: Story) -> Iterator[Aside]:
    """Draws `story` several times a second; however the block ends, the last picture stays, and the whole of it.

    What it gives keeps the picture away for a while, in which other lines may be written.
    """
    console, is_away = Console(stderr=True, highlight=False), False

    @contextmanager
    def aside() -> Iterator[None]:
        nonlocal is_away
        # The picture begins again over as many lines as it had last: none, or what was written meanwhile is lost.
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
        console.print(_whole(story))


def _fitting(story: Story, console: Console) -> RenderableType:
    if isinstance(story, Generation):
        return generation_tree.fitting(story, now(), console)
    return fitting(story, now(), console)


def _whole(story: Story) -> RenderableType:
    if isinstance(story, Generation):
        return generation_tree.left(story, now())
    return tree(story, now())


@contextmanager
def _stoppable(live: Live) -> Iterator[None]:
    """Ctrl-Z takes the picture away and gives the cursor back; when the process goes on, it is drawn again."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return

    def stop(number: int, frame: object) -> None:
        live.stop()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)
        live.start(refresh=True)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def is_drawn() -> bool:
    """Whether stderr is a terminal on which a tree can be drawn."""
    return sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal
