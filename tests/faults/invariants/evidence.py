"""What a run left behind: its directory and its database, as plain rows that invariants look at."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept: which one (`I1` to `I16`), of which order, and a sentence with the numbers."""

    invariant: str
    order_id: str | None
    sentence: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.order_id or '-'}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Post:
    """One order that a client sent; `status` 0: no answer came. `t` in seconds since 1970, as everywhere here."""

    t: float
    key: str | None
    status: int
    order_id: str | None
    prompt: str
    session_id: str | None = None
    body_digest: str | None = None

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Asked:
    """One control that a client sent; `t` is when the answer came."""

    t: float
    order_id: str
    kind: str
    record_id: str | None
    status: int
    receipt_id: str | None

    @property
    def acknowledged(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Effect:
    """A line of the ledger: what a tool really did. `tool` is ledger_once or ledger_idem."""

    order_id: str
    agent_path: str
    call_id: str
    tool: str
    epoch: int
    pid: int
    t: float

    @property
    def once(self) -> bool:
        """Whether a second run of the call would do harm."""
        return self.tool == "ledger_once"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request as the fake model server saw it; `n` counts those of the same order, agent and step."""

    t: float
    order: str
    agent: str
    step: int
    n: int
    outcome: str
    input_tokens: int
    output_tokens: int
    digest: str = ""
    fault: str | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Seen:
    """An entry that a viewer received."""

    t: float
    order_id: str
    seq: int
    kind: str
    connection: int | str


@dataclass(frozen=True, slots=True)
class Fault:
    t: float
    fault: str
    target: str
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Who held an order when the database was asked."""

    t: float
    order_id: str
    epoch: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Resource:
    """Memory (bytes) and open files of a process."""

    t: float
    name: str
    rss_bytes: int
    fds: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the journal; `epoch` is the one that it was written under, `at` when it was drafted."""

    order_id: str
    seq: int
    epoch: int
    at: float
    kind: str
    record_id: str | None
    parent_id: str | None
    agent: str | None
    call_id: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A row of the controls."""

    id: str
    order_id: str
    number: int
    kind: str
    record_id: str | None
    requested_at: float
    applied_seq: int | None
    refused: bool

    @property
    def settled(self) -> bool:
        return self.applied_seq is not None or self.refused


@dataclass(frozen=True, slots=True)
class Order:
    """An order with all that the database has of it. `copied`: so many entries came from the order it is a fork of."""

    id: str
    session_id: str
    session_seq: int
    spec: Mapping[str, Any]
    created_at: float
    status: str
    reason: str | None
    epoch: int
    last_seq: int
    outcome: Mapping[str, Any] | None
    input_tokens: int
    output_tokens: int
    entries: Sequence[Entry] = ()
    records: Sequence[tuple[str, str | None]] = ()
    receipts: Sequence[Receipt] = ()
    copied: int = 0
    derived: bool = False

    @property
    def final(self) -> bool:
        return self.status in FINAL

    @property
    def own(self) -> Sequence[Entry]:
        """The entries that were written for this order."""
        return self.entries[self.copied :]

    @property
    def prompt(self) -> str:
        return str(self.spec.get("prompt", ""))

    @property
    def agent(self) -> str:
        return str(self.spec.get("agent", "master"))

    @property
    def workspace(self) -> str | None:
        return self.spec.get("workspace")

    def of_kind(self, *kinds: str) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.kind in kinds)


@dataclass(frozen=True, slots=True)
class Lock:
    """A workspace that an order holds."""

    key: str
    order_id: str
    epoch: int
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything. `texts` are all texts of the database and the directory by place, for the search after secrets."""

    run: Mapping[str, Any] = field(default_factory=dict)
    posts: Sequence[Post] = ()
    asked: Sequence[Asked] = ()
    effects: Sequence[Effect] = ()
    model_calls: Sequence[ModelCall] = ()
    viewers: Mapping[str, Sequence[Seen]] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    samples: Sequence[Sample] = ()
    resources: Sequence[Resource] = ()
    left_over: Sequence[str] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, Order] = field(default_factory=dict)
    locks: Sequence[Lock] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lease_seconds(self) -> float:
        return float(self.run.get("lease_seconds", 12.0))

    def effects_of(self, order_id: str) -> list[Effect]:
        return [effect for effect in self.effects if effect.order_id == order_id]

    def model_calls_of(self, order_id: str) -> list[ModelCall]:
        return [call for call in self.model_calls if call.order == order_id]


CLOCK_SECONDS = 0.002
"""Entries are dated to the microsecond, lines of the ledger as a float. Where a process's clock jumps, `clock_seconds`
in `run.json` says how far."""


def tolerance_of(evidence: Evidence) -> float:
    """So many seconds apart, two moments may be told in the wrong order."""
    return float(evidence.run.get("clock_seconds", CLOCK_SECONDS))


class BrokenEvidence(ValueError):
    """A file of the directory cannot be read; the sentence names the file and the line."""


def read_directory(directory: Path) -> Evidence:
    """What the files say, without the database. Files that a run does not have are empty. Raises `BrokenEvidence`."""
    run = _document(directory / "run.json", {})
    logs = {path.name: path.read_text(errors="replace") for path in sorted((directory / "logs").glob("*"))}
    return Evidence(
        run=run,
        posts=[_made(Post, line) for line in _lines(directory / "orders.jsonl")],
        asked=[_made(Asked, line) for line in _lines(directory / "controls.jsonl")],
        effects=list(_ledger(directory / "ledger.log")),
        model_calls=[_made(ModelCall, line) for line in _lines(directory / "llm.jsonl")],
        viewers={
            path.stem: [_made(Seen, line) for line in _lines(path)]
            for path in sorted((directory / "viewers").glob("*.jsonl"))
        },
        faults=[_made(Fault, line) for line in _lines(directory / "faults.jsonl")],
        samples=[_made(Sample, line) for line in _lines(directory / "leases.jsonl")],
        resources=[_made(Resource, line) for line in _lines(directory / "resources.jsonl")],
        left_over=list(_left_over(_document(directory / "processes.json", []))),
        logs=logs,
        texts={
            str(path.relative_to(directory)): path.read_text(errors="replace")
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.suffix in (".jsonl", ".log", ".txt")
        },
    )


def _made(kind: Any, line: Mapping[str, Any]) -> Any:
    """The fields that are known; a run may note more."""
    return kind(**{name: line[name] for name in kind.__dataclass_fields__ if name in line})


def _document(path: Path, missing: Any) -> Any:
    if not path.exists():
        return missing
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise BrokenEvidence(f"{path} is not JSON: {error}") from error


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """A last line without its end was being written when its process was killed; it is left out."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(keepends=True), start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            if line.endswith("\n"):
                raise BrokenEvidence(f"{path}, line {number}: {error}") from error


def _ledger(path: Path) -> Iterator[Effect]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        parts = line.split("\t")
        try:
            order_id, agent_path, call_id, tool, epoch, pid, t = parts
            yield Effect(order_id, agent_path, call_id, tool, int(epoch), int(pid), float(t))
        except ValueError as error:
            raise BrokenEvidence(f"{path}, line {number}: {error}") from error


def _left_over(said: Any) -> Iterable[str]:
    """Processes and directories that are left, from a list or from a mapping of lists."""
    if isinstance(said, Mapping):
        return [f"{what} {json.dumps(one)}" for what, them in said.items() for one in them]
    return [one if isinstance(one, str) else json.dumps(one) for one in said]
