"""This room is for the service's log: one JSON object per line on standard error, whatever it is about."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import structlog

from mcc.redaction import Redactor
from mcc.redaction.logs import RedactedFormatter

LONGEST_FIELD = 10_000


def _bounded(redactor: Callable[[], Redactor]) -> Callable[[Any, str, Any], Any]:
    """Cuts long values, but no secret in two: its first half would not be found any more."""

    def bounded(_: Any, __: str, event: Any) -> Any:
        return {
            key: redactor().text(value)[:LONGEST_FIELD] + "…"
            if isinstance(value, str) and len(value) > LONGEST_FIELD
            else value
            for key, value in event.items()
        }

    return bounded


def set_up(level: int = logging.INFO, redactor: Callable[[], Redactor] = Redactor) -> None:
    """Send structlog's and the standard library's messages the same way, without secrets and control characters."""
    shared: list[Callable[..., Any]] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _bounded(redactor),
            structlog.processors.JSONRenderer(ensure_ascii=True),
        ],
    )
    handler.setFormatter(RedactedFormatter(formatter, redactor))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
