"""A process that asks a side process a question that never ends, and prints the pid of the side process."""

import sys
from contextlib import closing

from mcc.side_process import SideProcess
from tests.mcc import side_work

if __name__ == "__main__":
    with closing(SideProcess(side_work.spin)) as side:
        print(side.ask("", 5.0), flush=True)
        side.ask(sys.argv[1], float(sys.argv[2]))
