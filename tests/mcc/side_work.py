"""Work for the tests of side processes: each function returns one that answers questions."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answering = Callable[[Any], object]


def echo() -> Answering:
    return lambda question: question


def who() -> Answering:
    return lambda question: {
        "pid": os.getpid(),
        "nice": os.nice(0),
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
    }


def writing() -> Answering:
    """Loads a module that no test needs, and answers a path with how many characters it could write there."""
    import colorsys

    assert colorsys
    return lambda path: Path(path).write_text("more")


def spin() -> Answering:
    """For an empty question it answers its pid; for the path of a pipe it opens that and then never ends."""

    def spinning(question: str) -> object:
        if question:
            os.close(os.open(question, os.O_WRONLY))
        while question:
            pass
        return os.getpid()

    return spinning


def sleep() -> Answering:
    return lambda seconds: time.sleep(seconds)


def greedy() -> Answering:
    return lambda question: len(bytearray(question))


def long() -> Answering:
    return lambda question: "x" * question


def picky() -> Answering:
    def refuse(question: Any) -> object:
        raise {"value": ValueError, "other": TypeError}[question]("not this one")

    return refuse
