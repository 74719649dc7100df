"""Failpoints: the places in the life of an order at which a process can be made to fail.

A process hits a place by name; what happens there stands in a control file, a JSON list of `Armed`, which all processes
of a family share and which may change at any time. Hits are counted over all processes together, so that an arm fires
once, and not again in whoever takes over. What fires is told in the log of faults before it happens.
"""

import asyncio
import fcntl
import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, get_args

import psutil

from mcc.store.database.errors import StoreUnavailable
from tests.faults.script import Play

T = TypeVar("T")

Action = Literal["kill9", "term", "stop", "raise", "sleep", "exec_and_error", "out_of_memory", "oom_kill"]
ACTIONS: Sequence[Action] = get_args(Action)

PLACES: Mapping[str, str] = {
    "F1": "MCC, before the order is inserted",
    "F2": "MCC, after the order's commit, before the nudge",
    "F3": "MCC, after the nudge, before the answer over HTTP",
    "F4": "drone, a message (or the poll) named the order, before the claim",
    "F5": "drone, after the claim's commit",
    "F6": "drone, after the reservation (model.started), before the model is asked",
    "F7": "drone, in the midst of a model's stream",
    "F8": "drone, the model has replied, before that is committed",
    "F9": "drone, after the commit of the reply",
    "F10": "drone, after the commit of tool.started",
    "F11": "drone, in the midst of a tool: its effect has happened",
    "F12": "drone, the tool is done, before its result is committed",
    "F13": "drone, after the commit of tool.finished, before viewers are told",
    "F14": "drone, before the commit of a child's agent.started",
    "F15": "drone, after the commit of a child's agent.started, before its first call",
    "F16": "drone, a child's agent.finished is committed, before its parent goes on",
    "F17": "drone, some of a reply's parallel calls are finished, others not",
    "F18": "drone, before the commit of the order's end",
    "F19": "drone, after the commit of the order's end, before viewers are told",
    "F20": "drone, before the broker's message is acknowledged",
    "F21": "drone, told to stop, before it hands its orders back",
    "F22": "MCC or drone, a sweep took orders back, before they are nudged",
    "F23": "drone, the renewal of a lease is committed, before it is known",
    "F24": "drone, a long text is kept, before the entry that names it",
}

SPARE_BYTES, PIECE_BYTES = 24 * 1024 * 1024, 1024 * 1024
MOST_PIECES = 1_024
"""A process that nobody ends for its greed takes no more than that."""

STORE_SECONDS = 5.0
"""So long a stop waits for calls that are in the database."""


class UnknownPlace(ValueError):
    """There is no such place, or no such action."""


class Broken(RuntimeError):
    """What the action `raise` raises where nothing else was asked for."""


@dataclass(frozen=True, slots=True)
class Armed:
    """`action` at the `nth` hit of `name` by `order` (its id or its key; None = by any), counted from 1.

    `seconds` is for stop and sleep. `unavailable`: the action raise raises `StoreUnavailable`, else `Broken`.
    `member`: only in the process of this name.
    """

    name: str
    action: Action
    order: str | None = None
    nth: int = 1
    seconds: float = 1.0
    unavailable: bool = False
    member: str | None = None
    id: str = "0"

    def __post_init__(self) -> None:
        if self.name not in PLACES:
            raise UnknownPlace(f"there is no place {self.name!r}; there are {', '.join(PLACES)}")
        if self.action not in ACTIONS:
            raise UnknownPlace(f"there is no action {self.action!r}; there are {', '.join(ACTIONS)}")


class ArmedFile:
    """The control file, written by the test process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._armed: list[Armed] = []
        self._count = 0

    def arm(
        self,
        name: str,
        action: Action,
        *,
        order: str | None = None,
        nth: int = 1,
        seconds: float = 1.0,
        unavailable: bool = False,
        member: str | None = None,
    ) -> Armed:
        """Answers what was armed; its `id` names the file that says whether it fired (`fired`)."""
        self._count += 1
        one = Armed(name, action, order, nth, seconds, unavailable, member, str(self._count))
        self._armed.append(one)
        self._write()
        return one

    def disarm(self) -> None:
        """Nothing fires any more."""
        self._armed.clear()
        self._write()

    def fired(self, one: Armed) -> bool:
        return hits(self._path, one) >= one.nth

    def _write(self) -> None:
        whole = self._path.with_suffix(".new")
        whole.write_text(json.dumps([asdict(one) for one in self._armed]))
        whole.rename(self._path)


def hits(control: Path, one: Armed) -> int:
    """How often this arm's place was hit by whom it is for, by all processes together."""
    counted = _counter(control, one)
    return int(counted.read_text() or 0) if counted.exists() else 0


def _counter(control: Path, one: Armed) -> Path:
    return control.with_name(f"{control.name}.hits.{one.id}")


def _count(control: Path, one: Armed) -> int:
    descriptor = os.open(_counter(control, one), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        number = int(os.pread(descriptor, 20, 0) or b"0") + 1
        os.pwrite(descriptor, str(number).encode(), 0)
        return number
    finally:
        os.close(descriptor)


@dataclass
class Failpoints:
    """The places of one process, `member` of a family. Safe for several threads."""

    control: Path
    log: Path
    member: str
    _seen: tuple[int, int] | None = None
    _armed: Sequence[Armed] = ()
    _keys: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _moved: threading.Condition = field(default_factory=threading.Condition)
    _in_store: int = 0
    _stopping: bool = False

    @contextmanager
    def in_store(self) -> Iterator[None]:
        """While a call is in the database. A stop waits for the end of all of them: a process that stands still with
        SQLite's lock in its hand would hold up the whole family, and be no zombie."""
        with self._moved:
            self._moved.wait_for(lambda: not self._stopping)
            self._in_store += 1
        try:
            yield
        finally:
            with self._moved:
                self._in_store -= 1
                self._moved.notify_all()

    def know(self, order_id: str, prompt: str) -> None:
        """From here on all processes know the order by the key in its prompt as well."""
        play = Play.of(prompt)
        if play is not None and order_id not in self._keys:
            self._keys[order_id] = play.key
            self._shared_key(order_id).parent.mkdir(exist_ok=True)
            self._shared_key(order_id).write_text(play.key)

    def hit(self, name: str, order: str | None = None) -> None:
        """Fail if that was armed; `order` is an id or a key. Raises `StoreUnavailable`, `Broken`, or never returns."""
        if one := self._firing(name, order):
            self._act(one)

    async def hit_async(self, name: str, order: str | None = None) -> None:
        """As `hit`, on an event loop: a sleep lets others go on."""
        one = self._firing(name, order)
        if one is not None and one.action == "sleep":
            await asyncio.sleep(one.seconds)
        elif one is not None:
            self._act(one)

    def before(self, name: str, order: str | None, work: Callable[[], T]) -> T:
        """Hit the place, then do the work; with exec_and_error do it, and report that it failed."""
        one = self._firing(name, order)
        if one is not None and one.action != "exec_and_error":
            self._act(one)
        done = work()
        if one is not None and one.action == "exec_and_error":
            self._act(one)
        return done

    def _firing(self, name: str, order: str | None) -> Armed | None:
        for one in self._orders():
            if one.name != name or one.member not in (None, self.member):
                continue
            if one.order is not None and one.order not in (order, self._key(order)):
                continue
            if _count(self.control, one) == one.nth:
                self._tell(one, order)
                return one
        return None

    def _stop(self, seconds: float) -> None:
        with self._moved:
            self._stopping = True
            self._moved.wait_for(lambda: self._in_store == 0, STORE_SECONDS)
            stop_for(os.getpid(), seconds)
            self._stopping = False
            self._moved.notify_all()

    def _key(self, order: str | None) -> str | None:
        if order is not None and order not in self._keys and self._shared_key(order).exists():
            self._keys[order] = self._shared_key(order).read_text()
        return self._keys.get(order or "")

    def _shared_key(self, order_id: str) -> Path:
        return self.control.with_name("keys") / order_id

    def _orders(self) -> Sequence[Armed]:
        try:
            now = self.control.stat()
        except FileNotFoundError:
            return ()
        with self._lock:
            seen = (now.st_mtime_ns, now.st_ino)
            if seen != self._seen:
                self._armed = tuple(Armed(**one) for one in json.loads(self.control.read_text()))
                self._seen = seen
            return self._armed

    def _tell(self, one: Armed, order: str | None) -> None:
        detail = {"place": one.name, "order": order, "seconds": one.seconds, "pid": os.getpid()}
        line = {"t": time.time(), "fault": one.action, "target": self.member, "detail": detail}
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)

    def _act(self, one: Armed) -> None:
        match one.action:
            case "kill9":
                os.kill(os.getpid(), signal.SIGKILL)
            case "term":
                os.kill(os.getpid(), signal.SIGTERM)
            case "stop":
                self._stop(one.seconds)
            case "sleep":
                time.sleep(one.seconds)
            case "exec_and_error":
                raise StoreUnavailable(f"armed at {one.name}: done, and reported as failed")
            case "out_of_memory":
                use_up_memory()
            case "oom_kill":
                take_memory()
            case "raise":
                kind = StoreUnavailable if one.unavailable else Broken
                raise kind(f"armed at {one.name}")


def use_up_memory() -> None:
    """Take all the address space that this process may still have, which from here on is little. Raises MemoryError.

    The limit stays: whatever else the process does is short of memory as well.
    """
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, resource.RLIM_INFINITY))
    hoard = []
    while True:
        hoard.append(bytearray(PIECE_BYTES))


def take_memory() -> None:
    """Take memory until the kernel ends this process (see `tests.faults.memory`). Raises `Broken` if it does not."""
    hoard = [bytearray(PIECE_BYTES) for _ in range(MOST_PIECES)]
    raise Broken(f"nobody minds {len(hoard)} pieces of memory")


def stop_for(pid: int, seconds: float) -> None:
    """Stop a process, and let it go on after `seconds`: somebody else must do that, and he is started before."""
    wake = f"sleep {seconds:g}; kill -CONT {pid}"
    subprocess.Popen(["sh", "-c", wake], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.kill(pid, signal.SIGSTOP)
