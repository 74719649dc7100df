"""Many concurrent turns in one process: MCC, a bare httpx loop and two other frameworks, each in its own process.

    python -m benchmarks turns                  # 50 and 200 turns at 200 ms a call, 500 at 2 s; peers at 50
    python -m benchmarks.turns --all            # peers with 200 turns too, and with SSE: 15 minutes

The ideal time is the critical path of a turn: 11 calls. A process uses one core at most, so its CPU time is a lower
bound (the floor) for its wall-clock time. On a busy machine, compare the floors.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.contender import Scenario, Spent
from benchmarks.summary import Promise
from benchmarks.workload import (
    CALLS,
    CHILD_PROMPT,
    FACT,
    MASTER_PROMPT,
    PATH,
    fake_provider,
    prompt_of_a_turn,
    table,
)

PEERS = Path(__file__).parent / "peers"
LONGEST_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    command: tuple[str, ...]
    peer: bool = False

    @property
    def is_installed(self) -> bool:
        return Path(self.command[0]).exists()


def _own(name: str, setup: str) -> Contender:
    return Contender(name, (sys.executable, "-m", "benchmarks.contenders", setup))


def _peer(name: str) -> Contender:
    python = PEERS / ".venvs" / name / "bin" / "python"
    return Contender(name, (str(python), str(PEERS / f"{name}_turns.py")), peer=True)


BARE = _own("bare httpx, one client per turn", "bare")
MEMORY = _own("runtime, memory journal", "memory")
SQLITE = _own("runtime, SQLite store", "sqlite")
CONTENDERS = (BARE, MEMORY, SQLITE, _peer("openai_agents"), _peer("pydantic_ai"))
WALL_TARGETS = {(50, 200): 1.2, (200, 200): 1.8, (500, 2000): 1.2}
"""The wall-clock time as a multiple of the ideal time, by number of turns and milliseconds per call."""


def run_contender(contender: Contender, scenario: Scenario) -> Spent | str:
    """What the turns cost; a message where they did not finish."""
    try:
        process = subprocess.run(
            contender.command,
            input=json.dumps(asdict(scenario)),
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {LONGEST_SECONDS} s"
    if process.returncode:
        return f"failed: {process.stderr.strip().splitlines()[-1] if process.stderr.strip() else process.returncode}"
    return Spent(**json.loads(process.stdout.splitlines()[-1]))


def concurrent_turns(
    server: str, turns: int, latency_ms: int, stream: bool, contenders: Sequence[Contender]
) -> list[Promise]:
    scenario = Scenario(server, latency_ms, turns, stream, MASTER_PROMPT, CHILD_PROMPT, prompt_of_a_turn(), FACT)
    ideal, found, rows = PATH * latency_ms / 1000, {}, []
    for contender in contenders:
        if not contender.is_installed:
            rows.append((contender.name, "not installed, see benchmarks/peers/environments"))
            continue
        spent = run_contender(contender, scenario)
        if isinstance(spent, str):
            rows.append((contender.name, spent))
            continue
        found[contender] = spent
        rows.append((contender.name, *_columns(spent, turns, ideal)))
    head = ("what", "wall", "wall/ideal", "floor", "busy", "CPU per call", "memory per turn", "failed")
    wire = "SSE" if stream else "plain"
    filled = [(*row, *("",) * (len(head) - len(row))) for row in rows]
    table(f"{turns} concurrent turns, {latency_ms} ms a call, {wire} (ideal {ideal:.1f} s)", head, filled)
    return list(_promises(found, turns, latency_ms, wire))


def _columns(spent: Spent, turns: int, ideal: float) -> tuple[str, ...]:
    return (
        f"{spent.wall:.2f} s",
        f"{spent.wall / ideal:.2f}",
        f"{max(1.0, spent.cpu / ideal):.2f}",
        f"{spent.cpu / spent.wall:.0%}",
        f"{spent.cpu / (turns * CALLS) * 1000:.2f} ms",
        f"{spent.kilobytes / turns:.0f} KB",
        str(spent.failed or ""),
    )


def _promises(found: dict[Contender, Spent], turns: int, latency_ms: int, wire: str) -> list[Promise]:
    own, bare, ideal = found.get(MEMORY), found.get(BARE), PATH * latency_ms / 1000
    if own is None:
        return []
    what, target = (
        f"{turns} concurrent turns, {latency_ms} ms a call, {wire}",
        WALL_TARGETS.get((turns, latency_ms), 1.2),
    )
    floor = f"floor {max(1.0, own.cpu / ideal):.2f}"
    compared = f", bare httpx {bare.wall / ideal:.2f}" if bare else ""
    return [
        Promise(f"{what}: wall / ideal", own.wall / ideal, target, note=floor + compared),
        Promise(f"{what}: memory per turn", own.kilobytes / turns, 200, "KB"),
    ]


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns")
    parser.add_argument(
        "--all", action="store_true", help="the other frameworks also with 200 turns, and also with SSE"
    )
    everything = parser.parse_args(arguments).all
    without_peers = tuple(one for one in CONTENDERS if not one.peer)
    promises = []
    with fake_provider() as server:
        for stream in (False, True):
            promises += concurrent_turns(
                server, 50, 200, stream, CONTENDERS if everything or not stream else without_peers
            )
            promises += concurrent_turns(server, 200, 200, stream, CONTENDERS if everything else without_peers)
        promises += concurrent_turns(server, 500, 2000, True, (BARE, MEMORY))
    print("\n  Floor: the wall/ideal that the CPU time alone requires, on the one core that a process uses.")
    return promises


if __name__ == "__main__":
    main(sys.argv[1:])
