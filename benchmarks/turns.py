"""Many turns at once in one process, ours beside a bare httpx loop and two other frameworks, each in its own process.

    python -m benchmarks turns                  # 50 and 200 turns at 200 ms a call, 500 at 2 s; peers at 50
    python -m benchmarks.turns --all            # everybody everywhere: a quarter of an hour

Ideal is the critical path of a turn: 11 calls. A process has one core, so that its CPU time is a floor under its wall
clock: where a machine is busy with other things, that floor is what can be compared.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.contender import Game, Spent
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
    def is_here(self) -> bool:
        return Path(self.command[0]).exists()


def _ours(name: str, player: str) -> Contender:
    return Contender(name, (sys.executable, "-m", "benchmarks.contenders", player))


def _peer(name: str) -> Contender:
    python = PEERS / ".venvs" / name / "bin" / "python"
    return Contender(name, (str(python), str(PEERS / f"{name}_turns.py")), peer=True)


BARE = _ours("bare httpx, a client a turn", "bare")
MEMORY = _ours("runtime, memory journal", "memory")
SQLITE = _ours("runtime, SQLite store", "sqlite")
CONTENDERS = (BARE, MEMORY, SQLITE, _peer("openai_agents"), _peer("pydantic_ai"))
WALL_HOLDS = {(50, 200): 1.2, (200, 200): 1.8, (500, 2000): 1.2}
"""Of turns and milliseconds a call: the wall clock, in ideals."""


def played(contender: Contender, game: Game) -> Spent | str:
    """What the turns cost; a sentence where they did not end."""
    try:
        done = subprocess.run(
            contender.command, input=json.dumps(asdict(game)), capture_output=True, text=True, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"not done after {LONGEST_SECONDS} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
    return Spent(**json.loads(done.stdout.splitlines()[-1]))


def at_once(server: str, turns: int, latency_ms: int, stream: bool, contenders: Sequence[Contender]) -> list[Promise]:
    game = Game(server, latency_ms, turns, stream, MASTER_PROMPT, CHILD_PROMPT, prompt_of_a_turn(), FACT)
    ideal, found, rows = PATH * latency_ms / 1000, {}, []
    for contender in contenders:
        if not contender.is_here:
            rows.append((contender.name, "not installed: benchmarks/peers/environments"))
            continue
        spent = played(contender, game)
        if isinstance(spent, str):
            rows.append((contender.name, spent))
            continue
        found[contender] = spent
        rows.append((contender.name, *_columns(spent, turns, ideal)))
    head = ("what", "wall", "wall/ideal", "floor", "busy", "CPU per call", "memory per turn", "failed")
    wire = "SSE" if stream else "plain"
    filled = [(*row, *("",) * (len(head) - len(row))) for row in rows]
    table(f"{turns} turns at once, {latency_ms} ms a call, {wire} (ideal {ideal:.1f} s)", head, filled)
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
    mine, bare, ideal = found.get(MEMORY), found.get(BARE), PATH * latency_ms / 1000
    if mine is None:
        return []
    what, hold = f"{turns} turns at once, {latency_ms} ms a call, {wire}", WALL_HOLDS.get((turns, latency_ms), 1.2)
    floor = f"CPU alone {max(1.0, mine.cpu / ideal):.2f}"
    beside = f", bare httpx {bare.wall / ideal:.2f}" if bare else ""
    return [
        Promise(f"{what}: wall / ideal", mine.wall / ideal, hold, note=floor + beside),
        Promise(f"{what}: memory a turn", mine.kilobytes / turns, 200, "KB"),
    ]


def main(arguments: Sequence[str] = ()) -> list[Promise]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns")
    parser.add_argument("--all", action="store_true", help="the other frameworks with 200 turns too, and both wires")
    everything = parser.parse_args(arguments).all
    own = tuple(one for one in CONTENDERS if not one.peer)
    promises = []
    with fake_provider() as server:
        for stream in (False, True):
            promises += at_once(server, 50, 200, stream, CONTENDERS if everything or not stream else own)
            promises += at_once(server, 200, 200, stream, CONTENDERS if everything else own)
        promises += at_once(server, 500, 2000, True, (BARE, MEMORY))
    print("\n  Floor: what the CPU time alone, on the one core that a process has, makes of wall/ideal.")
    return promises


if __name__ == "__main__":
    main(sys.argv[1:])
