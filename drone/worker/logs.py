"""The log of a drone: one structured line per event on standard error, Celery's events included."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import structlog
from celery.app.log import Logging

from mcc.redaction import Redactor
from mcc.redaction.redactor import RedactedFormatter

QUIET = ("celery.app.trace", "celery.worker.strategy", "celery.redirected", "alembic", "httpx", "httpcore")


def set_up(level: str, redactor: Callable[[], Redactor] = Redactor, *, terminal: bool | None = None) -> None:
    """Lines of JSON, or coloured ones for people on a terminal, without secrets.

    A standard error that is full or closed is no error.
    """
    on_terminal = sys.stderr is not None and sys.stderr.isatty() if terminal is None else terminal
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if on_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler.setFormatter(RedactedFormatter(formatter, redactor))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


class DroneLogging(Logging):  # type: ignore[misc]
    """What Celery calls to set up its logging: that of a drone instead."""

    def setup(self, *_: Any, **__: Any) -> bool:
        settings = self.app.settings
        set_up(settings.log_level, lambda: settings.redactor)
        return True
