"""This room is for zombies: processes that go on with what the database says is not theirs."""

from collections.abc import Iterator

from mcc.contracts.status import OrderStatus
from mcc.doctor.chart import Chart, Life, Node, RunningTask
from mcc.doctor.finding import Finding
from mcc.doctor.words import kill, seconds, who
from mcc.store.examined import SeenDrone, SeenOrder

LEAVING_SECONDS = 30.0
"""A process that has left ends within this time."""


def zombies(chart: Chart) -> Iterator[Finding]:
    for node in chart.nodes or ():
        for task in node.tasks:
            if task.seconds > chart.patience.grace_seconds and (finding := _task(chart, node, task)):
                yield finding
    for drone in chart.examined.drones:
        if (finding := _undead(chart, drone)) is not None:
            yield finding


def _task(chart: Chart, node: Node, task: RunningTask) -> Finding | None:
    order = chart.known.get(task.order_id or "")
    if task.order_id is None:
        detail = f"{node.name} has been busy for {seconds(task.seconds)} with a message that names no order"
        return Finding("zombie", "warning", detail, _end(chart, node), drone=node.name)
    if order is None:
        detail = f"{node.name} works on order {task.order_id}, which this database does not know"
        advice = "that drone uses another database or queue: correct MCC_DATABASE_URL or MCC_REDIS_URL there"
        return Finding("zombie", "broken", detail, advice, task.order_id, node.name)
    if _is_its_own(chart, node, order) or chart.ago(order.moved_at) <= chart.patience.grace_seconds:
        return None
    detail = f"{node.name} has worked on order {order.id} for {seconds(task.seconds)}, which {_truth(chart, order)}"
    advice = f"nothing that it writes is accepted; {_end(chart, node)}"
    return Finding("zombie", "broken", detail, advice, order.id, node.name)


def _is_its_own(chart: Chart, node: Node, order: SeenOrder) -> bool:
    if order.status is not OrderStatus.RUNNING:
        return False
    return order.incarnation in {drone.incarnation for drone in chart.processes(node)}


def _truth(chart: Chart, order: SeenOrder) -> str:
    since = f"{seconds(chart.ago(order.moved_at))} ago"
    if order.status is not OrderStatus.RUNNING:
        return f"became {order.status.value} {since} (epoch {order.epoch})"
    holder = chart.drone(order.incarnation)
    return f"{holder.name if holder else order.incarnation} claimed {since} (epoch {order.epoch})"


def _end(chart: Chart, node: Node) -> str:
    processes = chart.processes(node)
    return f"end that process: {kill(processes[-1])}" if processes else f"end the process of {node.name}"


def _undead(chart: Chart, drone: SeenDrone) -> Finding | None:
    """A process that is still there although its incarnation is not, and that is no other incarnation now."""
    if drone.state == "live" or _lives_on(chart, drone):
        return None
    ended = LEAVING_SECONDS if drone.state == "left" else chart.patience.lease_seconds + chart.patience.grace_seconds
    if chart.ago(drone.heartbeat_at) <= ended:
        return None
    said = "left" if drone.state == "left" else "was declared lost"
    heard = f"{who(drone)} {said}, last heard of {seconds(chart.ago(drone.heartbeat_at))} ago"
    if chart.answers(drone):
        advice = f"it cannot reach the database, or hangs; see its log, then {kill(drone)}"
        return Finding("zombie", "broken", f"{heard}, but its process still answers Celery", advice, drone=drone.name)
    match chart.life(drone):
        case Life.STOPPED:
            detail = f"{heard}; its process is stopped (SIGSTOP, a debugger, or Ctrl-Z)"
            advice = f"{kill(drone, 'CONT')} lets it find out and begin anew; {kill(drone, 'KILL')} ends it"
        case Life.RUNS:
            detail = f"{heard}, but its process still runs and answers nobody"
            advice = f"see its log, then {kill(drone)}, and after some seconds {kill(drone, 'KILL')}"
        case _:
            return None
    return Finding("zombie", "warning", detail, advice, drone=drone.name)


def _lives_on(chart: Chart, drone: SeenDrone) -> bool:
    """The same process under a newer incarnation, or a pid that another drone has by now."""
    after = [one for one in chart.examined.drones if (one.host, one.pid) == (drone.host, drone.pid)]
    return any(one.state == "live" or one.started_at > drone.started_at for one in after if one is not drone)
