"""A real worker process with a fake crew; its settings come from the environment."""

import sys

from drone.settings import load
from drone.worker.app import work
from tests.drone.worker.fake_crew import FakeCrew


def main() -> int:
    return work(load(), lambda settings: FakeCrew())


if __name__ == "__main__":
    sys.exit(main())
