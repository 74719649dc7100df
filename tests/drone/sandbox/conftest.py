"""What the tests of the sandbox share: a sandbox, where this machine can make one."""

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from tests.drone.sandbox.machine import found_sandbox


@pytest.fixture
def sandbox() -> Bubblewrap:
    return found_sandbox()
