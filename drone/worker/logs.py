"""The log of a drone, which Celery is kept from setting up in its own way."""

import sys
from collections.abc import Callable
from typing import Any

from celery.app.log import Logging

from mcc.logs import set_up_logs
from mcc.redaction import Redactor


def set_up(level: str, redactor: Callable[[], Redactor] = Redactor) -> None:
    """Coloured lines where standard error is a terminal, else JSON."""
    set_up_logs(level, redactor, on_terminal=sys.stderr is not None and sys.stderr.isatty())


class DroneLogging(Logging):  # type: ignore[misc]
    """What Celery calls to set up its logging: that of a drone instead."""

    def setup(self, *_: Any, **__: Any) -> bool:
        settings = self.app.settings
        set_up(settings.log_level, lambda: settings.redactor)
        return True
