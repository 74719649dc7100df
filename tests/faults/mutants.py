"""Mutants: `python -m tests.faults.mutants [NAME …]` breaks the product on purpose; who notices?

Each mutant is a small patch of a copy of the packages, run against the fastest tiers that should catch it. Tiers must
pass without a mutant first. Ends with 1 when a mutant survives or its patch no longer applies.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("mcc", "drone", "prompts", "tests", "pyproject.toml")
SECONDS = 240.0
"""A tier that takes longer has noticed as well: what hangs is broken."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Something that can notice: arguments of the interpreter, run in the copy."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """`old` stands once in the file and is replaced."""

    file: str
    old: str
    new: str

    def applied(self, root: Path) -> None:
        """Raises `DoesNotApply`."""
        path = root / self.file
        text = path.read_text() if path.exists() else ""
        if text.count(self.old) != 1:
            raise DoesNotApply(f"{self.file} has this {text.count(self.old)} times: {self.old.strip()!r}")
        path.write_text(text.replace(self.old, self.new))


class DoesNotApply(ValueError):
    """The product has changed: the patch must be written anew."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is broken, by which patches, and the tiers that should notice, the fastest first."""

    name: str
    patches: tuple[Patch, ...]
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class Fate:
    """`caught_by` None: it survived all its tiers; `problem`: it could not be tried."""

    mutant: str
    caught_by: str | None
    seconds: float
    problem: str | None = None

    @property
    def caught(self) -> bool:
        return self.caught_by is not None


def _pytest(name: str, *arguments: str) -> Tier:
    return Tier(name, ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments))


CONFORMANCE = _pytest("conformance", "tests/conformance/store", "-k", "sqlite and not machine")
FENCING = _pytest(
    "conformance of fencing",
    "tests/conformance/store/test_writing_the_journal.py",
    "tests/conformance/store/test_holding_orders.py",
    "-k",
    "sqlite",
)
MACHINE = _pytest("state machine", "tests/conformance/store/test_order_machine.py", "-k", "test_every_history")
LINES = Tier("simulated lines", ("-m", "tests.faults.simulation.lines", "--orders", "200"))
SIMULATION = Tier("simulation", ("-m", "tests.faults.simulation", "--count", "120", "--until-failure"))
RESUMING = _pytest("agent tests", "tests/drone/agent/test_resume_at_every_entry.py")
DOCUMENTS = _pytest(
    "conformance of documents",
    "tests/conformance/store/test_documents.py",
    "tests/conformance/store/test_agents_changing_documents.py",
    "-k",
    "sqlite",
)
KEEPING = _pytest("worker tests", "tests/drone/worker/test_keeper.py", "tests/drone/worker/test_journal_writer.py")
VIEWING = _pytest("feed tests", "tests/mcc/feed/test_order_streams.py")

STORE = "mcc/store"
WORKSPACE_ROWS = f"{STORE}/rows/workspace_rows.py"
MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "workspaces are free for all",
        (Patch(WORKSPACE_ROWS, "row = connection.execute(_IN_THE_WAY, wanted).first()", "row = None"),),
        (LINES, SIMULATION, CONFORMANCE),
    ),
    Mutant(
        "whoever asks first writes in a workspace",
        (Patch(WORKSPACE_ROWS, "row = connection.execute(_BEFORE_THERE_OR_ABOVE, ", "row = None and ({}, "),),
        (LINES, CONFORMANCE),
    ),
    Mutant(
        "who waits below is overtaken",
        (Patch(WORKSPACE_ROWS, "row = row or connection.execute(_BEFORE_BELOW, ", "row = row or None and ({}, "),),
        (LINES, CONFORMANCE),
    ),
    Mutant(
        "no epoch check on append",
        (
            Patch(
                f"{STORE}/work/journal.py",
                '_HELD = "s.order_id = b.order_id AND s.epoch = b.epoch AND s.last_seq',
                '_HELD = "s.order_id = b.order_id AND s.last_seq',
            ),
        ),
        (FENCING, CONFORMANCE),
    ),
    Mutant(
        "no epoch check on finish",
        (
            Patch(
                f"{STORE}/work/claims.py",
                "if not is_held(state, ending.epoch) or state.last_seq != ending.last_seq:",
                "if state.last_seq != ending.last_seq:",
            ),
        ),
        (FENCING, CONFORMANCE),
    ),
    Mutant(
        "no intent before tools",
        (
            Patch(
                "drone/agent/tool_calls.py",
                "*self._outcome_unknown(open_reply), *self._starting(open_reply))",
                "*self._outcome_unknown(open_reply))",
            ),
        ),
        (SIMULATION,),
    ),
    Mutant(
        "sweeper off",
        (
            Patch(
                "mcc/dispatch/sweep.py",
                "swept = self._sweep()\n",
                "swept = Swept()\n",
            ),
        ),
        (SIMULATION,),
    ),
    Mutant(
        "events by pub/sub only",
        (
            Patch(
                "mcc/feed/feed.py",
                "        self._to_check.add(order_id)\n        self._check_now.set()\n",
                "        pass\n",
            ),
            Patch(
                "mcc/feed/feed.py",
                "                polled, wanted = time.monotonic(), set(self._watched)\n",
                "                polled = time.monotonic()\n",
            ),
        ),
        (VIEWING,),
    ),
    Mutant(
        "claim without lease check",
        (Patch(f"{STORE}/work/claiming.py", '        has_lease(time, sa.bindparam("by")),\n', ""),),
        (FENCING, CONFORMANCE, MACHINE),
    ),
    Mutant(
        "a drone that lost its order changes the document",
        (
            Patch(
                f"{STORE}/work/agent_changes.py",
                "    if state is None or not is_held(state, held.epoch):\n        return None\n"
                "    if state.last_seq == held.last_seq:\n",
                "    if state:\n",
            ),
            Patch(f"{STORE}/work/journal.py", "        assert not fenced, ", "        assert True, "),
        ),
        (DOCUMENTS,),
    ),
    Mutant(
        "what a call did to a document is not known any more",
        (Patch(f"{STORE}/documents/rows.py", "    if command_id is None:\n", "    if True:\n"),),
        (DOCUMENTS,),
    ),
    Mutant(
        "a document is changed from what is in memory",
        (Patch(f"{STORE}/documents/rows.py", "    if known.version == locked.version:\n", "    if known:\n"),),
        (DOCUMENTS,),
    ),
    Mutant(
        "hint before commit",
        (
            Patch(
                "drone/worker/journal.py",
                "        group = group_of(some)\n",
                "        group = group_of(some)\n"
                "        group.batches()\n"
                "        self._publish(Committed(group.tried))\n",
            ),
        ),
        (SIMULATION,),
    ),
    Mutant(
        "takeover runs every open call again",
        (
            Patch(
                "drone/agent/tool_calls.py",
                "if call.call_id not in open_reply.finished and not (call.idempotent or self._is_resumable(call.name))",
                "if False",
            ),
        ),
        (RESUMING, SIMULATION),
    ),
    Mutant(
        "lost model calls cost nothing",
        (
            Patch(
                "drone/agent/state/tree.py",
                "        asked = max(0, call.reserved_tokens - output)\n",
                "        asked = output = 0\n",
            ),
        ),
        (RESUMING, SIMULATION),
    ),
    Mutant(
        "order.finished twice possible",
        (
            Patch(f"{STORE}/work/claims.py", "    if _was_finished(state, ending):", "    if False:"),
            Patch(
                f"{STORE}/work/claims.py",
                "if not is_held(state, ending.epoch) or state.last_seq != ending.last_seq:",
                "if state.epoch != ending.epoch:",
            ),
            Patch(
                "mcc/store/migrations/first/orders.py",
                """sa.Index("one_end_per_order", "order_id", unique=True,""",
                """sa.Index("one_end_per_order", "order_id", unique=False,""",
            ),
        ),
        (FENCING, CONFORMANCE, MACHINE),
    ),
    Mutant(
        "receipts never settled",
        (Patch(f"{STORE}/work/endings.py", "    if state.control_seq:\n", "    if state.control_seq < 0:\n"),),
        (SIMULATION, CONFORMANCE),
    ),
    Mutant(
        "controls lost while no drone runs",
        (
            Patch(
                f"{STORE}/work/claiming.py",
                "        control_seq=unsettled(controls, state.control_seq),\n",
                "        control_seq=state.control_seq,\n",
            ),
            Patch(
                f"{STORE}/work/claiming.py",
                "has_open_controls=any(control.open for control in controls)",
                "has_open_controls=False",
            ),
        ),
        (CONFORMANCE, SIMULATION),
    ),
    Mutant(
        "self-fencing off",
        (
            Patch(
                "drone/worker/keeper.py",
                "return self._confirmed_sent + self._trusted_seconds",
                'return float("inf")',
            ),
        ),
        (KEEPING, SIMULATION),
    ),
    Mutant(
        "hand-back loses the order",
        (
            Patch(
                f"{STORE}/work/claims.py",
                "status=OrderStatus.QUEUED, **release)",
                "status=OrderStatus.WAITING, **release)",
            ),
        ),
        (SIMULATION, CONFORMANCE),
    ),
)


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """The packages with their tests, in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory)
        for name in COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
            else:
                shutil.copy(source, copy / name)
        yield copy


def notices(tier: Tier, copy: Path, seconds: float = SECONDS) -> bool:
    """Whether the tier fails in this copy, or does not end in time."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, *tier.arguments],
        cwd=copy,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


Notices = Callable[[Tier, Path], bool]


def fate_of(mutant: Mutant, root: Path = ROOT, notice: Notices = notices) -> Fate:
    """Patch a copy and ask the tiers in turn until one notices."""
    began = time.monotonic()
    with copy_of(root) as copy:
        try:
            for patch in mutant.patches:
                patch.applied(copy)
        except DoesNotApply as problem:
            return Fate(mutant.name, None, 0.0, str(problem))
        caught = next((tier.name for tier in mutant.tiers if notice(tier, copy)), None)
    return Fate(mutant.name, caught, time.monotonic() - began)


def failing_already(mutants: Iterable[Mutant], root: Path = ROOT, notice: Notices = notices) -> list[str]:
    """Tiers that fail without any mutant, and so could not tell one."""
    with copy_of(root) as copy:
        tiers = dict.fromkeys(tier for mutant in mutants for tier in mutant.tiers)
        return [tier.name for tier in tiers if notice(tier, copy)]


def table(fates: Sequence[Fate]) -> Table:
    rows = Table("mutant", "caught by", "seconds", box=None)
    for fate in fates:
        rows.add_row(fate.mutant, fate.caught_by or fate.problem or "nobody: it survives", f"{fate.seconds:.0f}")
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants whose names contain one of these")
    parser.add_argument("--list", action="store_true", help="name them and end")
    asked = parser.parse_args(arguments)
    chosen = [one for one in MUTANTS if not asked.names or any(name in one.name for name in asked.names)]
    if asked.list or not chosen:
        print("\n".join(f"{one.name}: {', '.join(tier.name for tier in one.tiers)}" for one in chosen or MUTANTS))
        return 0 if chosen else 2
    if broken := failing_already(chosen):
        print(f"Without any mutant these fail already: {', '.join(broken)}.", file=sys.stderr)
        return 2
    fates = []
    for mutant in chosen:
        fates.append(fate_of(mutant))
        print(f"{mutant.name}: {fates[-1].caught_by or fates[-1].problem or 'survives'}", file=sys.stderr, flush=True)
    Console().print(table(fates))
    return 0 if all(fate.caught for fate in fates) else 1


if __name__ == "__main__":
    sys.exit(main())
