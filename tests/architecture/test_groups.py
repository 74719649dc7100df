"""Groups of tests, each run by one process of the tests, and the names of their files."""

from collections import Counter

import pytest

from tests.architecture.imports import ROOT


@pytest.mark.xdist_group("seen")
def test_groups_are_seen_by_whoever_spreads_the_tests(request: pytest.FixtureRequest) -> None:
    spread = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@seen") == bool(spread)


def test_no_two_test_files_have_one_name() -> None:
    """pytest cannot collect them in one run."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
