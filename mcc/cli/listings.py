"""The commands `mcc drones` and `mcc models`: what the live drones registered."""

from mcc.cli.printing import print_json, print_table
from mcc.cli.server import Call


def drones(call: Call) -> None:
    """Drones: how full they are, how many messages they refused.

    Refused are messages that nobody can use: garbage, other tasks, orders of another database.

    Example: mcc drones
    """
    found = call.client.drones.list()
    if call.as_json:
        print_json({"items": found})
        return
    rows = [
        (
            one.name,
            one.status,
            f"{one.active}/{one.slots}",
            one.refused_messages,
            ",".join(one.queues),
            one.host,
            one.pid,
            one.sandbox,
        )
        for one in found
    ]
    columns = ("NAME", "STATUS", "ACTIVE", "REFUSED", "QUEUES", "HOST", "PID", "SANDBOX")
    print_table(columns, rows, empty="No drone. Start one with: drone work")


def models(call: Call) -> None:
    """Models that the live drones can ask, and what is wrong with the others.

    Example: mcc models
    """
    found = call.client.models.list()
    if call.as_json:
        print_json({"items": found})
        return
    rows = [(one.name, one.problem or "ok", ",".join(one.drones), one.description) for one in found]
    print_table(("NAME", "STATE", "DRONES", "DESCRIPTION"), rows, empty="No model: is there a drone? mcc drones says.")
