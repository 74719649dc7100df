"""How long it takes until something can be used: `import drone`, `mcc --help`."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.workload import table

BIN = Path(sys.executable).parent


def seconds(*command: str, repeats: int = 7) -> float:
    """Median wall seconds of the whole process, the first run left out."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
    return median(times[1:])


def main() -> None:
    bare = seconds(sys.executable, "-c", "pass")
    rows = [
        ("python -c pass", f"{bare:.2f} s", ""),
        ("import drone", f"{seconds(sys.executable, '-c', 'import drone'):.2f} s", "<= 0.35 s"),
        ("import drone, Agent", f"{seconds(sys.executable, '-c', 'import drone; drone.Agent'):.2f} s", ""),
        ("mcc --help", f"{seconds(str(BIN / 'mcc'), '--help'):.2f} s", "<= 0.35 s"),
        ("drone --help", f"{seconds(str(BIN / 'drone'), '--help'):.2f} s", ""),
    ]
    table("Until it can be used", ("what", "wall", "hold"), rows)


if __name__ == "__main__":
    main()
