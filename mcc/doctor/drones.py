"""Findings about drones: processes that outlived their incarnation, silent ones, unknown workers, refused messages."""

from collections.abc import Iterator

from mcc.contracts.status import OrderStatus
from mcc.findings.finding import FIX_COMMAND, Finding, duration, kill, process_of
from mcc.findings.snapshot import CeleryNode, ProcessState, RunningTask, Snapshot
from mcc.store.rows.values import SeenDrone, SeenOrder

LEAVING_SECONDS = 30.0
"""The process of a drone that has left ends within this time."""

PROCESS_CLAUSES = {
    ProcessState.STOPPED: "; its process is stopped (SIGSTOP, a debugger, or Ctrl-Z)",
    ProcessState.GONE: "; its process is gone",
    ProcessState.RUNS: "; its process runs",
    ProcessState.UNKNOWN: "",
}


def zombies(snapshot: Snapshot) -> Iterator[Finding]:
    """Processes that go on with orders that are no longer theirs, or run on without the lease they lost."""
    for node in snapshot.nodes or ():
        for task in node.tasks:
            if task.seconds > snapshot.thresholds.grace_seconds and (finding := _zombie_task(snapshot, node, task)):
                yield finding
    for drone in snapshot.examined.drones:
        if (finding := _outlived(snapshot, drone)) is not None:
            yield finding


def _zombie_task(snapshot: Snapshot, node: CeleryNode, task: RunningTask) -> Finding | None:
    order = snapshot.known.get(task.order_id or "")
    if task.order_id is None:
        detail = f"{node.name} has been busy for {duration(task.seconds)} with a message that names no order"
        return Finding("zombie", "warning", detail, _kill_advice(snapshot, node), drone=node.name)
    if order is None:
        detail = f"{node.name} works on order {task.order_id}, which this database does not know"
        advice = "that drone uses another database or queue: correct MCC_DATABASE_URL or MCC_REDIS_URL there"
        return Finding("zombie", "broken", detail, advice, task.order_id, node.name)
    # Celery was asked before the database: an order that moved in between looks held by two.
    if _is_its_own(snapshot, node, order) or snapshot.age(order.moved_at) <= snapshot.thresholds.grace_seconds:
        return None
    held = _now_held(snapshot, order)
    detail = f"{node.name} has worked on order {order.id} for {duration(task.seconds)}, which {held}"
    advice = f"nothing that it writes is accepted; {_kill_advice(snapshot, node)}"
    return Finding("zombie", "broken", detail, advice, order.id, node.name)


def _is_its_own(snapshot: Snapshot, node: CeleryNode, order: SeenOrder) -> bool:
    if order.status is not OrderStatus.RUNNING:
        return False
    return order.incarnation in {drone.incarnation for drone in snapshot.incarnations(node)}


def _now_held(snapshot: Snapshot, order: SeenOrder) -> str:
    since = f"{duration(snapshot.age(order.moved_at))} ago"
    if order.status is not OrderStatus.RUNNING:
        return f"became {order.status.value} {since} (epoch {order.epoch})"
    holder = snapshot.drone(order.incarnation)
    return f"{holder.name if holder else order.incarnation} claimed {since} (epoch {order.epoch})"


def _kill_advice(snapshot: Snapshot, node: CeleryNode) -> str:
    processes = snapshot.incarnations(node)
    return f"end that process: {kill(processes[-1])}" if processes else f"end the process of {node.name}"


def _outlived(snapshot: Snapshot, drone: SeenDrone) -> Finding | None:
    """A finding where the process outlived its incarnation `drone` and did not register as another one."""
    # A pid says nothing once another incarnation has it.
    if drone.state == "live" or _is_replaced(snapshot, drone):
        return None
    ended = LEAVING_SECONDS if drone.state == "left" else snapshot.thresholds.lost_seconds
    if snapshot.age(drone.heartbeat_at) <= ended:
        return None
    how = "left" if drone.state == "left" else "was declared lost"
    heard = f"{process_of(drone)} {how}, last heard of {duration(snapshot.age(drone.heartbeat_at))} ago"
    if snapshot.answers(drone):
        advice = f"it cannot reach the database, or hangs; see its log, then {kill(drone)}"
        return Finding("zombie", "broken", f"{heard}, but its process still answers Celery", advice, drone=drone.name)
    match snapshot.process(drone):
        case ProcessState.STOPPED:
            detail = heard + PROCESS_CLAUSES[ProcessState.STOPPED]
            advice = f"{kill(drone, 'CONT')} lets it find out and begin anew; {kill(drone, 'KILL')} ends it"
        case ProcessState.RUNS:
            detail = f"{heard}, but its process still runs and answers nobody"
            advice = f"see its log, then {kill(drone)}, and after some seconds {kill(drone, 'KILL')}"
        case _:
            return None
    return Finding("zombie", "warning", detail, advice, drone=drone.name)


def _is_replaced(snapshot: Snapshot, drone: SeenDrone) -> bool:
    """Whether a newer incarnation has this pid: the same process registered again, or another drone."""
    after = [one for one in snapshot.examined.drones if (one.host, one.pid) == (drone.host, drone.pid)]
    return any(one.state == "live" or one.started_at > drone.started_at for one in after if one is not drone)


def unknown_workers(snapshot: Snapshot) -> Iterator[Finding]:
    """Celery workers that answer but are not registered as drones in this database."""
    for node in snapshot.nodes or ():
        if not snapshot.incarnations(node):
            pid = f" (pid {node.pid})" if node.pid is not None else ""
            detail = f"Celery knows {node.name}{pid}, and this database knows no such drone"
            advice = "it still starts, or uses another database: see MCC_DATABASE_URL where it runs"
            yield Finding("ghost", "warning", detail, advice, drone=node.name)


def silent(snapshot: Snapshot) -> Iterator[Finding]:
    """Registered drones that do not renew their lease, or do not answer Celery."""
    for drone in snapshot.examined.drones:
        if drone.state == "live" and (finding := _silent(snapshot, drone)) is not None:
            yield finding


def _silent(snapshot: Snapshot, drone: SeenDrone) -> Finding | None:
    heard = snapshot.age(drone.heartbeat_at)
    process = PROCESS_CLAUSES[snapshot.process(drone)]
    # By the database's clock (decision 10): a late heartbeat alone does not lose a lease that is still in time.
    if not drone.in_time and heard > snapshot.thresholds.lost_seconds:
        detail = f"the lease of {process_of(drone)} ran out, {duration(heard)} after it was last heard of{process}"
        advice = f"a sweep declares it lost, and none has: {FIX_COMMAND}"
        return Finding("silent", "warning", detail, advice, drone=drone.name, fix="sweep")
    if heard > snapshot.thresholds.heartbeat_seconds:
        detail = f"{process_of(drone)} has not renewed its lease for {duration(heard)}{process}"
        taken = f"after {duration(snapshot.thresholds.lease_seconds)} its orders go to others"
        stopped = snapshot.process(drone) is ProcessState.STOPPED
        advice = f"{kill(drone, 'CONT')}; {taken}" if stopped else f"nothing: {taken}; see its log"
        return Finding("silent", "warning", detail, advice, drone=drone.name)
    # A drone registers before its consumer connects, so a fresh one may be silent for a moment.
    is_settled = snapshot.age(drone.started_at) > 2 * snapshot.thresholds.grace_seconds
    should_answer = snapshot.nodes is not None and not drone.draining and is_settled
    if should_answer and not snapshot.answers(drone):
        detail = (
            f"{process_of(drone)} renews its lease, but does not answer Celery: "
            "its consumer is dead, or cut off from Redis"
        )
        advice = f"orders still reach it through the database, seconds later; if this stays, {kill(drone)}"
        return Finding("silent", "warning", detail, advice, drone=drone.name)
    return None


def refused_messages(snapshot: Snapshot) -> Iterator[Finding]:
    """Drones that refused messages which no drone can use: something else writes into their Redis."""
    for drone in snapshot.examined.drones:
        count = drone.counters.refused_messages
        if drone.up and count:
            refused = "1 message" if count == 1 else f"{count:,} messages"
            detail = f"{process_of(drone)} has refused {refused} since it started, because nobody could use them"
            advice = "its log says what they were (garbage, other tasks, orders of another database). Who sends them?"
            yield Finding("messages", "warning", detail, advice, drone=drone.name)
