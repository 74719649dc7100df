"""How much CPU it takes until something can be used: `import drone` to an agent, `mcc --help`.

CPU, because a busy machine shows in every clock on the wall; beside it that of `import pydantic`, in the same minute.
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
    """CPU of the whole process, the least of `REPEATS`. Bytecode is kept, also where Python is told to write none."""
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
        ("import drone, an agent", f"{agent:.2f} s", "<= 0.35 s"),
        ("mcc --help", f"{shown:.2f} s", "<= 0.2 s"),
        ("drone --help", f"{seconds(str(BIN / 'drone'), '--help'):.2f} s", ""),
    ]
    table("Until it can be used", ("what", "CPU", "hold"), rows)
    beside = f"CPU; pydantic alone {pydantic:.2f} s"
    return [
        Promise("import drone to an agent", agent, 0.35, "s", note=beside),
        Promise("mcc --help", shown, 0.2, "s", note=beside),
    ]


if __name__ == "__main__":
    main()
