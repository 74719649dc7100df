"""This room is for drones that are there by one account and not by another."""

from collections.abc import Iterator

from mcc.doctor.chart import Chart, Life
from mcc.doctor.finding import Finding
from mcc.doctor.words import FIX, kill, seconds, who
from mcc.store.examined import SeenDrone

LIVES = {
    Life.STOPPED: "; its process is stopped (SIGSTOP, a debugger, or Ctrl-Z)",
    Life.GONE: "; its process is gone",
    Life.RUNS: "; its process runs",
    Life.UNKNOWN: "",
}


def silent(chart: Chart) -> Iterator[Finding]:
    for drone in chart.examined.drones:
        if drone.state == "live" and (finding := _of_drone(chart, drone)) is not None:
            yield finding


def _of_drone(chart: Chart, drone: SeenDrone) -> Finding | None:
    heard = chart.ago(drone.heartbeat_at)
    if not drone.in_time and heard > chart.patience.lease_seconds + chart.patience.grace_seconds:
        detail = f"the lease of {who(drone)} ran out, {seconds(heard)} after it was last heard of{_life(chart, drone)}"
        advice = f"a sweep declares it lost, and none has: {FIX}"
        return Finding("silent", "warning", detail, advice, drone=drone.name, fix="sweep")
    if heard > chart.patience.heartbeat_seconds:
        detail = f"{who(drone)} has not renewed its lease for {seconds(heard)}{_life(chart, drone)}"
        return Finding("silent", "warning", detail, _advice(chart, drone), drone=drone.name)
    if chart.nodes is not None and not drone.draining and _is_settled(chart, drone) and not chart.answers(drone):
        detail = (
            f"{who(drone)} renews its lease, but does not answer Celery: its consumer is dead, or cut off from Redis"
        )
        advice = f"orders still reach it through the database, seconds later; if this stays, {kill(drone)}"
        return Finding("silent", "warning", detail, advice, drone=drone.name)
    return None


def _life(chart: Chart, drone: SeenDrone) -> str:
    return LIVES[chart.life(drone)]


def _advice(chart: Chart, drone: SeenDrone) -> str:
    if chart.life(drone) is Life.STOPPED:
        return f"{kill(drone, 'CONT')}; after {seconds(chart.patience.lease_seconds)} its orders go to others"
    return f"nothing: after {seconds(chart.patience.lease_seconds)} its orders go to others; see its log"


def _is_settled(chart: Chart, drone: SeenDrone) -> bool:
    """A drone registers before its consumer connects."""
    return chart.ago(drone.started_at) > 2 * chart.patience.grace_seconds
