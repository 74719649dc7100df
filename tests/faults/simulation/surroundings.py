"""What a simulation finds in this process, and leaves as it was: the logs, and everybody's dice."""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def quiet() -> Iterator[None]:
    """What drones log of their misfortunes is theirs."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.configure(**before)


@contextmanager
def global_dice(seed: int) -> Iterator[None]:
    """The product's own jitter comes from the seed as well."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
