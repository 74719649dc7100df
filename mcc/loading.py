"""Loading modules while the collector of garbage rests: going through what is being built costs a sixth of it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected while the block lasts; afterwards as before."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def for_good() -> Iterator[None]:
    """Nothing is collected while the block lasts, and nothing that is there at its end ever is: for processes whose
    modules stay to the end."""
    with uncollected():
        try:
            yield
        finally:
            gc.freeze()
