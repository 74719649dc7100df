"""This room is for a family in blocking code: it lives on a loop and a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mcc.local.family import Family


@contextmanager
def housed(family: Family) -> Iterator[Family]:
    """The family, ready, for the length of a `with` block. Raises what entering `family` raises.

    The thread that starts children must outlive them: the kernel ends them with it.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="family", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(family.__aenter__(), loop).result()
        try:
            yield family
        finally:
            asyncio.run_coroutine_threadsafe(family.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
