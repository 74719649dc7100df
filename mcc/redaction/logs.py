"""Log lines without secrets: a formatter around a formatter, and uncaught errors told as lines of the log."""

import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from mcc.redaction.redactor import Redactor


class RedactedFormatter(logging.Formatter):
    """Says what another formatter says; the redactor is asked for anew with every line."""

    def __init__(self, formatter: logging.Formatter, redactor: Callable[[], Redactor]) -> None:
        super().__init__()
        self._formatter = formatter
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().text(self._formatter.format(record))


def log_crashes(log: logging.Logger) -> None:
    """From now on what nobody catches goes to the log, which is redacted, and not to standard error as it is."""

    def crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.critical("the program met an error that nobody caught", exc_info=(kind, error, trace))

    def crashed_in_thread(told: threading.ExceptHookArgs) -> None:
        if told.exc_value is not None and not issubclass(told.exc_type, SystemExit):
            crashed(told.exc_type, told.exc_value, told.exc_traceback)

    sys.excepthook = crashed
    threading.excepthook = crashed_in_thread
