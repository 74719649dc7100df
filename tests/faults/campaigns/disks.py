"""Harm to the disks of the database, of logs, of workspaces and of Redis: full, or read-only.

Each harm is seen to have been felt, and is undone.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from errno import EROFS
from os import strerror
from pathlib import Path
from typing import Any

import redis

from mcc.contracts.fence import unfenced
from tests.faults.campaigns.ground import Ground, kept
from tests.faults.campaigns.redis import taken
from tests.faults.campaigns.soundness import sound
from tests.faults.campaigns.stage import Skipped, Stage, pause
from tests.faults.disks import FailingDisk, MemoryDisk, NoDisk, SmallDisk, failing_disk, memory_disk
from tests.faults.ledger import KEPT_TIMES, kept_file
from tests.faults.members import until
from tests.faults.plan import Plan
from tests.faults.postgres import DURABLE, NoPostgres, Postgres, folder_of_a_server, give_to_server, server_in
from tests.faults.script import KEEP, MASTER, READER

RESERVE_MEGABYTES = 8
DATABASE_MEGABYTES, SERVER_MEGABYTES, OTHER_MEGABYTES = 64, 192, 16
SMALL_DISKS = Plan(drones=2, settings={"MCC_DISK_RESERVE_MB": f"{RESERVE_MEGABYTES}"})
MOST_HARMS = 3
"""So many are drawn unless all are wanted."""

FULL_SECONDS = 6.0
DONE_SECONDS = 60.0
ACCEPTED, REFUSALS = 201, frozenset({503, 507})
NOBODY = 0
"""What a client gets where no service answers."""

READ_ONLY = "needs a disk that the kernel takes for damaged"


@contextmanager
def small_disks(directory: Path, plan: Plan) -> Iterator[Ground]:
    """Logs, workspaces, Redis' file and the database lie on small disks of their own. Raises `Skipped`."""
    with ExitStack() as stack:
        try:
            disks: dict[str, SmallDisk] = {
                "logs": stack.enter_context(kept(directory / "logs", memory_disk(directory / "logs", OTHER_MEGABYTES))),
                **{
                    name: stack.enter_context(memory_disk(directory / name, OTHER_MEGABYTES))
                    for name in ("workspaces", "redis")
                },
            }
        except NoDisk as why:
            raise Skipped(f"no small disk can be mounted here: {why}") from why
        missing: dict[str, str] = {}
        server: Postgres | None = None
        if plan.database == "sqlite":
            disks["database"] = _of_sqlite(stack, directory, missing)
        else:
            server = _of_postgres(stack, directory, disks, missing)
        settings = {**plan.settings, "DRONE_WORKSPACE_ROOTS": str(directory / "workspaces")}
        own = replace(plan, settings=settings, redis={"appendonly": "yes", "dir": str(directory / "redis")})
        yield Ground(replace(own, server=server.url) if server else own, server, disks, missing)


def _of_sqlite(stack: ExitStack, directory: Path, missing: dict[str, str]) -> SmallDisk:
    """One that can fail, where that can be had."""
    private = directory / "private"
    try:
        disk = failing_disk(private, directory / "private.image", DATABASE_MEGABYTES)
        return stack.enter_context(kept(private, disk))
    except NoDisk as why:
        missing["disk of the database read-only"] = f"{READ_ONLY}: {why}"
    return stack.enter_context(kept(private, memory_disk(private, DATABASE_MEGABYTES)))


def _of_postgres(
    stack: ExitStack, directory: Path, disks: dict[str, SmallDisk], missing: dict[str, str]
) -> Postgres | None:
    try:
        folder = stack.enter_context(folder_of_a_server())
        disk = stack.enter_context(failing_disk(folder, directory / "server.image", SERVER_MEGABYTES))
        give_to_server(folder)
        server = stack.enter_context(server_in(folder, DURABLE))
    except (NoPostgres, NoDisk) as why:
        missing.update(dict.fromkeys(("disk of the database full", "disk of the database read-only"), str(why)))
        return None
    disks["database"] = disk
    return server


def disks_fail(stage: Stage) -> None:
    """Disks in turn are full or read-only for some seconds: orders wait or are told, none fails, nothing is lost."""
    placed: list[str] = []
    harms = {name: harm for name, harm in HARMS.items() if name not in stage.missing}
    for number, name in enumerate(stage.dice.sample(sorted(harms), len(harms) if stage.whole else MOST_HARMS)):
        placed += stage.crowd(f"during-{number}", 3, linger_seconds=0.5)
        stage.family.told(name, "disk")
        placed += harms[name](stage)
        stage.quiet()
    stage.succeeded(placed, "only disks had trouble")
    sound(stage)


def _database_full(stage: Stage) -> Sequence[str]:
    disk = stage.ground.disks["database"]
    disk.fill_up()
    try:
        answers = _answers(stage)
    finally:
        disk.empty()
        _revived(stage)
    _only(stage, answers, REFUSALS | {ACCEPTED})
    stage.wish(not REFUSALS.isdisjoint(answers), f"posting answered {answers} while the disk was full")
    return [_claimed(stage, "after-full")]


def _database_read_only(stage: Stage) -> Sequence[str]:
    """Until the disk is mended everything that uses it stands still or ends, and is started again afterwards."""
    disk = stage.ground.disks["database"]
    assert isinstance(disk, FailingDisk)
    disk.fail()
    try:
        answers = _answers(stage)
        ended = [member.name for member in stage.family.members if not member.runs]
    finally:
        with stage.family.nobody():
            if stage.ground.postgres is not None:
                stage.ground.postgres.stop()
            disk.mend()
            _revived(stage)
    _only(stage, answers, REFUSALS | {NOBODY})
    stage.measured["processes that a read-only disk ended"].append(len(ended))
    return [_claimed(stage, "after-read-only")]


def _answers(stage: Stage) -> list[int]:
    """What clients get who post meanwhile."""
    answers, end = [], time.monotonic() + FULL_SECONDS
    while time.monotonic() < end:
        answers.append(stage.posted("meanwhile"))
        pause(0.5)
    stage.measured["posts refused for a disk"].append(sum(answer in REFUSALS for answer in answers))
    return answers


def _only(stage: Stage, answers: Sequence[int], allowed: frozenset[int] | set[int]) -> None:
    wrong = sorted(set(answers) - allowed)
    stage.wish(not wrong, f"posting answered {wrong} while the disk of the database had trouble")


def _revived(stage: Stage) -> None:
    """A PostgreSQL that gave up is started."""
    server = stage.ground.postgres
    if server is not None and not server.runs:
        server.start()


def _claimed(stage: Stage, key: str) -> str:
    order_id = stage.submit(key)
    until(lambda: stage.family.state(order_id).attempt > 0, DONE_SECONDS, f"{key} is claimed")
    return order_id


def _logs_full(stage: Stage) -> Sequence[str]:
    """Whoever cannot log works on all the same."""
    family, disk = stage.family, stage.ground.disks["logs"]
    stage.quiet()
    pids = {member.name: member.pid for member in family.members}
    disk.fill_up(*disk.path.glob("*.log"))
    unlogged = stage.crowd("unlogged", 3)
    _done(stage, unlogged)
    disk.empty()
    logged = stage.submit("logged")
    _done(stage, [logged])
    said = "".join(drone.said() for drone in family.drones)
    stage.wish(not any(one in said for one in unlogged), "drones logged while the disk of their logs was full")
    stage.wish(logged in said, "no drone logged again when there was room")
    stage.wish(
        pids == {member.name: member.pid for member in family.members}, "a process ended because it could not log"
    )
    return [*unlogged, logged]


def _workspaces_full(stage: Stage) -> Sequence[str]:
    """Orders that write there wait for room."""
    disk = stage.ground.disks["workspaces"]
    return _in_workspaces(stage, disk.fill_up, disk.empty, lambda one: stage.family.state(one).reason == "disk")


def _workspaces_read_only(stage: Stage) -> Sequence[str]:
    """A tool that cannot write tells its model, and its order goes on."""
    disk = stage.ground.disks["workspaces"]
    assert isinstance(disk, MemoryDisk)

    def is_told(order_id: str) -> bool:
        return any(strerror(EROFS) in str(result) for result in _kept(stage, order_id))

    return _in_workspaces(stage, disk.refuse_writes, disk.allow_writes, is_told)


def _in_workspaces(
    stage: Stage, spoil: Callable[[], object], mend: Callable[[], object], is_felt: Callable[[str], bool]
) -> Sequence[str]:
    """Orders write in a workspace and read in it; others begin meanwhile and afterwards, in one that nobody knew."""
    known, fresh = (_folder(stage, name) for name in ("known", "fresh"))
    writers = [_in_workspace(stage, f"writes-{number}", known) for number in range(2)]
    reader = _in_workspace(stage, "reads", known, agent=READER)
    until(lambda: any(stage.family.state(one).last_seq > 4 for one in writers), DONE_SECONDS, "somebody writes")
    spoil()
    try:
        late = [_in_workspace(stage, "begins-meanwhile", fresh)]
        until(lambda: any(map(is_felt, writers)), DONE_SECONDS, "an order feels it")
        until(lambda: stage.family.state(late[0]).attempt > 0, DONE_SECONDS, "an order begins meanwhile")
    finally:
        mend()
    late.append(_in_workspace(stage, "begins-later", fresh))
    stage.quiet()
    for folder, orders in ((known, writers), (fresh, late)):
        _files_are_whole(stage, folder, orders)
    failed = [result for one in (*writers, *late) for result in _kept(stage, one) if result["is_error"]]
    stage.measured["files that tools could not keep"].append(len(failed))
    return [*writers, reader, *late]


def _kept(stage: Stage, order_id: str) -> list[dict[str, Any]]:
    """What came of the calls of this order that keep files."""
    results = map(json.loads, stage.family.observer.results(order_id))
    return [result for result in results if result["name"] == KEEP]


def _files_are_whole(stage: Stage, folder: Path, order_ids: Sequence[str]) -> None:
    """What a tool said it has kept is there."""
    for result in (result for one in order_ids for result in _kept(stage, one) if not result["is_error"]):
        mark = unfenced(result["content"]).rpartition(" ")[2]
        file = kept_file(folder, result["call_id"])
        stage.wish(file.read_text() == mark * KEPT_TIMES, f"{file} is not what a tool has kept")


def _folder(stage: Stage, name: str) -> Path:
    """A new workspace."""
    there = stage.ground.disks["workspaces"].path
    path = there / f"{name}-{len(list(there.iterdir()))}"
    path.mkdir()
    return path


def _in_workspace(stage: Stage, name: str, folder: Path, agent: str = MASTER) -> str:
    asks = {"workspace": str(folder), "agent": agent}
    key = f"{folder.name}-{name}"
    return stage.submit(key, asks=asks, keeps=agent == MASTER, children=0, steps=12, linger_seconds=1.5)


def _redis_full(stage: Stage) -> Sequence[str]:
    """Redis refuses every write that it cannot keep; orders are accepted and done without it."""
    family, disk = stage.family, stage.ground.disks["redis"]
    disk.fill_up()
    until(lambda: not _redis_writes(stage), 20.0, "Redis refuses to write")
    meanwhile = stage.crowd("redis-full", 3)
    _done(stage, meanwhile)
    disk.empty()
    until(lambda: _redis_writes(stage), 20.0, "Redis writes again")
    family.redis.command("DEL", FILLER)
    return [*meanwhile, taken(stage, "redis-has-room", "claim after Redis' disk has room")]


FILLER = "faults-filler"


def _redis_writes(stage: Stage) -> bool:
    try:
        stage.family.redis.command("SET", FILLER, "x" * 8_192)
    except redis.ResponseError:
        return False
    return True


def _done(stage: Stage, order_ids: Sequence[str]) -> None:
    def states() -> list[str]:
        return [stage.family.state(one).status for one in order_ids]

    until(lambda: set(states()) == {"succeeded"}, DONE_SECONDS, lambda: f"orders are done: {states()}")


HARMS: Mapping[str, Callable[[Stage], Sequence[str]]] = {
    "disk of the database full": _database_full,
    "disk of the database read-only": _database_read_only,
    "disk of the logs full": _logs_full,
    "disk of the workspaces full": _workspaces_full,
    "disk of the workspaces read-only": _workspaces_read_only,
    "disk of Redis full": _redis_full,
}
"""By what is done: a function that does it, undoes it, and answers the orders that must succeed."""
