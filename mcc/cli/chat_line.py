"""The line at the bottom of the terminal: typed and edited there while other threads write above it."""

from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcc.view.prompting import IsOver

LOOK_SECONDS = 1.0


class ChatLine:
    """Reads what a person types. `asked`: the words of a question that waits for the next line, "" for none."""

    def __init__(self, commands: Sequence[str], prompt: Callable[[], str], toolbar: Callable[[], str]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter

        self.asked = ""
        self._answers: Queue[str] = Queue()
        self._over = False
        self._prompt = prompt
        self._session: PromptSession[str] = PromptSession(
            completer=WordCompleter(list(commands), sentence=True),
            complete_while_typing=False,
            bottom_toolbar=toolbar,
            refresh_interval=0.5,
        )

    def next(self) -> str:
        """The next line. Raises KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D."""
        return self._session.prompt(lambda: self.asked or self._prompt()).strip()

    def answer(self, line: str) -> None:
        """Give a line to who has asked for it."""
        self._answers.put(line)

    def read(self, prompt: str, is_over: "IsOver") -> str | None:
        """As `read_line`, for other threads: what is typed next is the answer."""
        self.asked = prompt
        self.redraw()
        try:
            while not self._over:
                try:
                    return self._answers.get(timeout=LOOK_SECONDS)
                except Empty:
                    if is_over():
                        return None
            return None
        finally:
            self.asked = ""

    def close(self) -> None:
        """Whoever waits for an answer gets none."""
        self._over = True

    def redraw(self) -> None:
        self._session.app.invalidate()
