"""A live tree on the terminal behind stderr: redrawn while an order runs, left standing when that ends."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live

from mcc.contracts.shape import now
from mcc.view import generation_tree
from mcc.view.generation import Generation
from mcc.view.story import Story
from mcc.view.tree import FRAMES_PER_SECOND, fitting, tree


@contextmanager
def live_tree(story: Story) -> Iterator[Live]:
    """Draws `story` several times a second; however the block ends, the last picture stays, and the whole of it.

    Inside, the picture can be stopped for a while.
    """
    console = Console(stderr=True, highlight=False)
    live = Live(
        console=console,
        refresh_per_second=FRAMES_PER_SECOND,
        get_renderable=lambda: _fitting(story, console),
        transient=True,
        redirect_stdout=False,
    )
    try:
        with live, _stoppable(live):
            yield live
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
