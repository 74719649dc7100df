"""Logging of a process: one redacted line per event on standard error, uncaught exceptions included."""

import io
import json
import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from mcc.contracts.invisible import escape_invisible, escape_on_one_line
from mcc.redaction import Redactor

LONGEST_FIELD = 10_000
"""Longest string value in a JSON log line, in characters."""

QUIET = ("celery.app.trace", "celery.worker.strategy", "celery.redirected", "alembic", "httpx", "httpcore")


class RedactedFormatter(logging.Formatter):
    """Redacts the output of another formatter, with the redactor of the moment, so that new secrets count at once."""

    def __init__(self, formatter: logging.Formatter, redactor: Callable[[], Redactor]) -> None:
        super().__init__()
        self._formatter = formatter
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().text(self._formatter.format(record))


class _Handler(logging.StreamHandler[TextIO]):
    """Drops a line that cannot be written. An error message about it would go to the same broken stream."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _unbuffered(stream: TextIO | None) -> TextIO | None:
    """The stream without a buffer: one that a full disk leaves unwritten would fail the flush at exit, and with it the
    program's exit status."""
    try:
        descriptor = -1 if stream is None else stream.fileno()
    except (OSError, ValueError):
        descriptor = -1  # The stream is no file, as in a test.
    if descriptor < 0:
        return stream
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def set_up_logs(level: str = "INFO", redactor: Callable[[], Redactor] = Redactor, *, on_terminal: bool = False) -> None:
    """Log structlog and standard library events to standard error, as JSON objects or, `on_terminal`, coloured lines.

    Lines are dropped silently while standard error is full or closed.
    """
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = (
        [
            structlog.processors.format_exc_info,
            _escaped,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
        if on_terminal
        else [structlog.processors.format_exc_info, _bounded(redactor), structlog.processors.JSONRenderer(_json)]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )
    handler = _Handler(_unbuffered(sys.stderr))
    handler.setFormatter(RedactedFormatter(formatter, redactor))
    root = logging.getLogger()
    # In place of all others: a handler that a library has added would print lines that nobody redacted.
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


_SEVERAL_LINES = frozenset({"exception", "stack"})


def _escaped(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Make visible what a terminal would obey or hide; a line end would begin a line that looks like another event."""
    return {
        escape_on_one_line(key): (escape_invisible if key in _SEVERAL_LINES else escape_on_one_line)(value)
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }


def _json(event: EventDict, **options: Any) -> str:
    # `json.dumps` escapes every character beyond ASCII, but of ASCII's own controls not the last.
    return json.dumps(event, **options).replace("\x7f", "\\u007f")


def _bounded(redactor: Callable[[], Redactor]) -> Processor:
    """Cut long values after redacting them: the redactor would not recognise a secret that was cut in half."""

    def bounded(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return {
            key: redactor().text(value)[:LONGEST_FIELD] + "…"
            if isinstance(value, str) and len(value) > LONGEST_FIELD
            else value
            for key, value in event.items()
        }

    return bounded


def log_crashes(log: logging.Logger) -> None:
    """Send uncaught exceptions of all threads to the redacted log from now on, instead of raw to standard error."""

    def crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.critical("the program met an error that nobody caught", exc_info=(kind, error, trace))

    def crashed_in_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and not issubclass(failure.exc_type, SystemExit):
            crashed(failure.exc_type, failure.exc_value, failure.exc_traceback)

    sys.excepthook = crashed
    threading.excepthook = crashed_in_thread
