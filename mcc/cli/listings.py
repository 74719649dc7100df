"""This room is for what is there to work with: drones, and the models that they can ask."""

from typing import TYPE_CHECKING

from mcc.cli.options import AsJson, DataDir, Url
from mcc.cli.printing import print_json, print_table
from mcc.cli.server import served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcc.contracts.answers import Offer


def drones(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Drones: how full they are, how many messages they refused.

    Refused are messages that nobody can use: garbage, other tasks, orders of another database.

    Example: mcc drones
    """
    with served(url, data_dir) as client:
        found = client.drones.list()
    if as_json:
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


def models(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Models that the live drones can ask, and what is wrong with the others.

    Example: mcc models
    """
    with served(url, data_dir) as client:
        _show(client.models.list(), as_json, "No model: is there a drone? mcc drones says.")


def _show(found: "Sequence[Offer]", as_json: bool, empty: str) -> None:
    if as_json:
        print_json({"items": found})
        return
    rows = [(one.name, one.problem or "ok", ",".join(one.drones), one.description) for one in found]
    print_table(("NAME", "STATE", "DRONES", "DESCRIPTION"), rows, empty=empty)
