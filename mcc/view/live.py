"""A live tree on the terminal at stderr: redrawn while an order runs, left in place when it ends."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeAlias

from rich.console import Console, RenderableType

from mcc.contracts.shape import now
from mcc.view import generation_tree
from mcc.view.drawing import Drawing
from mcc.view.echo import Echo
from mcc.view.generation import GenerationStory
from mcc.view.story import Story
from mcc.view.tree import LAST, OrderPicture, fitting

Aside: TypeAlias = Callable[[], AbstractContextManager[None]]

FRAMES_PER_SECOND = 10
REST = 4
"""So many times as long as a frame takes to draw it is waited for the next: many agents are drawn less often."""


@contextmanager
def live_tree(story: Story) -> Iterator[Aside]:
    """Draw `story` several times a second; however the block ends, a complete last picture stays.

    Gives a context manager that removes the picture while other lines are written.
    """
    live = _Live(story)
    try:
        with _stoppable(live):
            live.start()
            yield live.aside
    finally:
        live.stop(_final_picture(story))


class _Live:
    """Draws in a thread of its own between `start` and `stop`."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._console = Console(stderr=True, highlight=False)
        self._drawing = Drawing(self._console, _write)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._echo = Echo()

    @property
    def drawing(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        self._echo.off()
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name="live tree", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            self._drawing.show(_fitting(self._story, self._console))
            took = time.monotonic() - began
            self._over.wait(max(1 / FRAMES_PER_SECOND - took, took * REST))

    def stop(self, last: RenderableType | None = None, *, forget: bool = False) -> None:
        """Draw no more: take the picture away, or leave `last` in its place. `forget` what was typed meanwhile."""
        self._over.set()
        try:
            if self._thread is not None:
                self._thread.join()
                self._thread = None
        finally:
            self._echo.on(forget=forget)
        self._drawing.leave(last)

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.stop(forget=True)
        try:
            yield
        finally:
            self.start()


def _write(text: str) -> None:
    # The terminal may be gone, and the order then goes on, or ends, as it would.
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _fitting(story: Story, console: Console) -> RenderableType:
    if isinstance(story, GenerationStory):
        return generation_tree.fitting(story, story.heard_until(now()), console)
    return fitting(story, story.heard_until(now()), console)


def _final_picture(story: Story) -> RenderableType:
    if isinstance(story, GenerationStory):
        return generation_tree.final_picture(story, now())
    return OrderPicture(story, now(), LAST)


@contextmanager
def _stoppable(live: "_Live") -> Iterator[None]:
    """Make Ctrl-Z remove the picture and restore the cursor; the picture is drawn again when the process continues."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return

    def stop(number: int, frame: object) -> None:
        was_drawing = live.drawing
        live.stop()
        # The default action first: the process must really stop, as the shell expects it.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)
        if was_drawing:
            live.start()

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
