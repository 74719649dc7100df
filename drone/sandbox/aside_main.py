"""The process of `drone.sandbox.aside`: answers questions from standard input, one line each, until it is closed."""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from drone.sandbox.aside import MEMORY_BYTES, PATIENCE

_PR_SET_PDEATHSIG = 1
_NICER = 10


def main() -> None:
    """`argv`: where modules are looked for, the work as `module:function`, the number of the process that asks."""
    _, _, name, parent = sys.argv
    _bound(int(parent))
    module, _, function = name.partition(":")
    work: Callable[[Any], object] = getattr(importlib.import_module(module), function)()
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        # Both end this process, whatever it is at: also when whoever waits for it is stopped itself.
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * asked["seconds"])
        out.write(json.dumps(_answer(work, asked["question"])).encode() + b"\n")
        out.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(work: Callable[[Any], object], question: object) -> dict[str, object]:
    try:
        return {"value": work(question)}
    except ValueError as error:
        return {"refused": str(error)[:1_000]}
    except MemoryError:
        gc.collect()
        return {"broke": "reading it took too much memory"}
    except Exception as error:
        return {"broke": f"reading it failed: {type(error).__name__}"}


def _bound(parent: int) -> None:
    """Go with the process that asks, take no more memory than may be, and let others go first."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)
    os.nice(_NICER)
    for limit, value in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(limit)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (allowed, allowed))
