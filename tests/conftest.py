"""What holds in every test: properties are judged by what they say, and no test reads its user's own configuration."""

import gc
import os
import signal

import pytest
import structlog
from hypothesis import settings

from tests.processes import GROUP

settings.register_profile("mcc", deadline=None)
settings.load_profile("mcc")

# Below a file: nobody can make it, root neither, and so no test finds there what another one left.
os.environ["XDG_CONFIG_HOME"] = "/dev/null/config"
for name in [name for name in os.environ if name.startswith(("MCC_", "DRONE_"))]:
    del os.environ[name]

# Under nohup, or behind an & in a script, it is ignored; programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# With colours and the variables of every frame, as structlog shows them by itself, a stack trace takes a second.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Fourteen thousand tests stay in memory: looking through them again and again took a fifth of the time.
gc.set_threshold(700, 20, 100)
gc.disable()  # while they are collected, of which hardly anything can be freed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest begins first: families that wait for leases, then other groups, which start slowly."""
    if getattr(config.option, "processes", 0) > 1:
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker(GROUP) is None:
        return 2
    return 0 if item.path.parent.name == "faults" else 1


def pytest_collection_finish() -> None:
    # Not collected before: a second for each process, for 30 MB that stay.
    gc.freeze()
    gc.enable()
