"""Groups of tests: what starts a family of processes is run by one process of the tests."""

import pytest


@pytest.mark.xdist_group("seen")
def test_groups_are_seen_by_whoever_spreads_the_tests(request: pytest.FixtureRequest) -> None:
    spread = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@seen") == bool(spread)
