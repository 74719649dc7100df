"""Fixture of the sandbox tests: a sandbox, on machines that can make one."""

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from tests.drone.sandbox.machine import found_sandbox


@pytest.fixture
def sandbox() -> Bubblewrap:
    return found_sandbox()
