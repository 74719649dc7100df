"""A process that asks another one something that never ends, and says who that is."""

import sys
from contextlib import closing

from drone.sandbox.aside import Aside
from tests.drone.sandbox import work_aside

if __name__ == "__main__":
    with closing(Aside(work_aside.spin)) as aside:
        print(aside.ask("", 5.0), flush=True)
        aside.ask(sys.argv[1], float(sys.argv[2]))
