"""CPU of starting up: from `import drone` to an agent, and `mcc --help`.

CPU, because load on the machine distorts wall-clock times; `import pydantic` is measured in the same minute to compare.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.summary import Promise
from benchmarks.workload import table

BIN = Path(sys.executable).parent
REPEATS = 7
MODEL = "type('M', (), {'name': 'one'})"
AGENT = f"import drone; drone.Agent(drone.AgentDefinition(name='one', prompt='Work.'), model={MODEL})"


def seconds(*command: str) -> float:
    """CPU seconds of the whole process, the minimum of `REPEATS` runs. Python caches bytecode in all environments."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> list[Promise]:
    pydantic = seconds(sys.executable, "-c", "from pydantic import BaseModel")
    agent, shown = seconds(sys.executable, "-c", AGENT), seconds(str(BIN / "mcc"), "--help")
    rows = [
        ("python -c pass", f"{seconds(sys.executable, '-c', 'pass'):.2f} s", ""),
        ("from pydantic import BaseModel", f"{pydantic:.2f} s", ""),
        ("import drone", f"{seconds(sys.executable, '-c', 'import drone'):.2f} s", ""),
        ("import drone, create an agent", f"{agent:.2f} s", "<= 0.35 s"),
        ("mcc --help", f"{shown:.2f} s", "<= 0.2 s"),
        ("drone --help", f"{seconds(str(BIN / 'drone'), '--help'):.2f} s", ""),
    ]
    table("CPU of starting up", ("command", "CPU", "target"), rows)
    note = f"CPU; pydantic alone {pydantic:.2f} s"
    return [
        Promise("import drone until an agent exists", agent, 0.35, "s", note=note),
        Promise("mcc --help", shown, 0.2, "s", note=note),
    ]


if __name__ == "__main__":
    main()
