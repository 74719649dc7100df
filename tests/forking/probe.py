"""Says as JSON what a process sees of itself: `python -m tests.forking.probe [wait]`, which waits for a signal."""

import asyncio
import gc
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any


def seen() -> dict[str, object]:
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "arguments": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "directory": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "LC_CTYPE"},
        "umask": umask,
        "descriptors": [number for number in range(1_000) if _is_open(number)],
        "inherited": _inherited(),
        "streams": [
            (stream.encoding, stream.errors, stream.line_buffering, stream.write_through) for stream in streams
        ],
        "leads a session": os.getsid(0) == os.getpid(),
        "handlers": {
            number: str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
        },
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "threads": threading.active_count(),
        "collects": gc.isenabled(),
        "temporary": tempfile.gettempdir(),
        "zone": time.tzname,
        "main": sys.modules["__main__"].__name__,
        "loop": type(asyncio.get_event_loop_policy()).__name__,
        "finds modules here": os.getcwd() in sys.path,
    }


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _inherited() -> str:
    """What is read from the descriptor that the environment names."""
    return os.read(int(os.environ["DESCRIPTOR"]), 100).decode() if "DESCRIPTOR" in os.environ else ""


def main() -> None:
    print(json.dumps({"same": seen(), "drawn": random.random(), "parent": os.getppid(), "forked": _is_forked()}))
    if sys.argv[1:] == ["wait"]:
        sys.stdout.flush()
        signal.pause()
    print(sys.stdin.read() if not sys.stdin.isatty() else "", file=sys.stderr)
    sys.exit(7)


def _is_forked() -> bool:
    return b"tests.forking.zygote" in Path("/proc/self/cmdline").read_bytes()


if __name__ == "__main__":
    main()
