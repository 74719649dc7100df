"""What the tests of the sandbox share: a sandbox, where this machine can make one."""

import os

import pytest

from drone.sandbox.bubblewrap import Bubblewrap


@pytest.fixture
def sandbox() -> Bubblewrap:
    found = Bubblewrap.found()
    problem = "bubblewrap is not installed" if found is None else found.problem()
    if problem and (found is None or "CI" not in os.environ):
        pytest.skip(problem)
    assert found is not None and problem is None, problem
    return found
