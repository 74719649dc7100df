"""The threads of a process stay on one processor, the programs it starts may use all."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from mcc.processors import IDLE, ONE, Processors

GIVEN = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else frozenset[int]()
pytestmark = pytest.mark.skipif(len(GIVEN) < 2, reason="this machine gives a process one processor, or cannot keep it")

SAYS = (sys.executable, "-I", "-S", "-c", "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))")


@pytest.fixture
def processors() -> Iterator[Processors]:
    made = Processors()
    yield made
    made.unpin()


def of_threads() -> set[frozenset[int]]:
    """The distinct affinities of this process's threads."""
    found = set[frozenset[int]]()
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):  # The thread has ended.
            found.add(frozenset(os.sched_getaffinity(int(thread))))
    return found


def of_program() -> list[int]:
    """The affinity of a program started now, as it reports itself."""
    found: list[int] = json.loads(subprocess.run(SAYS, capture_output=True, check=True).stdout)
    return found


def test_threads_are_kept_where_the_caller_runs_and_so_are_those_that_come_later(processors: Processors) -> None:
    over = threading.Event()
    threads = [threading.Thread(target=over.wait)]
    threads[0].start()
    try:
        processors.pin()
        threads.append(threading.Thread(target=over.wait))
        threads[1].start()
        assert processors.pinned_to in GIVEN
        assert of_threads() == {frozenset({processors.pinned_to})}
        processors.unpin()
        assert of_threads() == {GIVEN} and processors.pinned_to is None
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_program_has_every_processor_and_its_starter_keeps_to_one(processors: Processors) -> None:
    processors.pin()
    assert len(of_program()) == 1
    with processors.all_available():
        assert of_program() == sorted(GIVEN)
    assert os.sched_getaffinity(0) == {processors.pinned_to}


def test_a_thread_that_was_let_go_while_it_started_a_program_is_not_taken_back(processors: Processors) -> None:
    processors.pin()
    with processors.all_available():
        processors.unpin()
    assert os.sched_getaffinity(0) == GIVEN


def test_a_process_that_was_given_one_processor_is_left_alone() -> None:
    one = Processors(frozenset({min(GIVEN)}))
    one.pin()
    assert one.pinned_to is None and of_threads() == {GIVEN}
    asyncio.run(one.keep_together())


@pytest.mark.parametrize(("share", "kept"), [(IDLE / 2, False), (0.7, True), (ONE + 0.1, False)])
def test_a_process_is_kept_together_while_it_works_and_needs_no_second_processor(share: float, kept: bool) -> None:
    looks = count(1)
    asked = count(1)
    processors = Processors(clock=lambda: float(next(looks)), cpu_clock=lambda: share * next(asked))

    async def rounds() -> set[bool]:
        together = asyncio.create_task(processors.keep_together(0.0, 0.0))
        seen = set[bool]()
        for _ in range(50):
            await asyncio.sleep(0)
            seen.add(processors.pinned_to is not None)
        together.cancel()
        with suppress(asyncio.CancelledError):
            await together
        return seen

    assert (True in asyncio.run(rounds())) is kept
    assert of_threads() == {GIVEN}, "let go at its end"
