"""Groups of tests, each run by one process of the tests, and the names of their files."""

from collections import Counter, OrderedDict

import pytest

from tests.architecture.imports import ROOT
from tests.spreading import ByGroupOrFile, begins_with_files, next_scope


@pytest.mark.xdist_group("seen")
def test_groups_are_seen_by_whoever_spreads_the_tests(request: pytest.FixtureRequest) -> None:
    spread = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@seen") == bool(spread)


def test_half_of_the_processes_begin_with_files_and_the_others_with_groups_until_none_is_left() -> None:
    assert [begins_with_files(place, 4, 2) for place in range(4)] == [True, True, False, False]
    assert [begins_with_files(place, 6, 2) for place in range(6)].count(True) == 2
    assert [begins_with_files(place, 4, 16) for place in range(4)].count(True) == 2
    assert not begins_with_files(0, 1, 2)
    waiting = ["killed drones", "turns", "tests/a/test_b.py", "tests/c/test_d.py"]
    assert next_scope(waiting, computes=True) == "tests/a/test_b.py"
    assert next_scope(waiting, computes=False) == "killed drones"
    assert next_scope(waiting[:2], computes=True) is None and next_scope(waiting[2:], computes=False) is None


class Process:
    """A process of the tests, as it is told what to run."""

    shutting_down = False

    def __init__(self) -> None:
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices


def test_each_process_is_given_whole_groups_and_files_of_its_kind() -> None:
    tests = ["a/test_b.py::test_c@turns", "a/test_d.py::test_e", "a/test_d.py::test_f", "a/test_g.py::test_h@turns"]
    scheduling = ByGroupOrFile.__new__(ByGroupOrFile)
    computing, other = Process(), Process()
    scheduling.assigned_work = OrderedDict({computing: {}, other: {}})
    scheduling.registered_collections = OrderedDict({computing: tests, other: tests})
    scheduling.workqueue = OrderedDict()
    for test in tests:
        scheduling.workqueue.setdefault(scheduling._split_scope(test), {})[test] = False
    for process in (computing, other):
        scheduling._assign_work_unit(process)
    assert (computing.given, other.given) == ([1, 2], [0, 3])


def test_no_two_test_files_have_one_name() -> None:
    """pytest cannot collect them in one run."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
