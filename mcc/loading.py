"""Loading the modules of a process that stays: the collector of garbage never goes through them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def for_good() -> Iterator[None]:
    """Nothing is collected while the block lasts, and nothing that is there at its end ever is.

    For processes whose modules stay to the end: going through them again and again takes a sixth of their start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
