"""The commands `mcc drones`: drones listed, told to take no orders, and to take orders again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import AsJson, DataDir, Url, print_table, say
from mcc.cli.server import ServiceCall, service_command

if TYPE_CHECKING:
    from mcc.contracts.drones import SandboxState

app = typer.Typer(rich_markup_mode=None)

Every = Annotated[
    bool, typer.Option("--all", help="Those that have been silent for over ten minutes as well, for a day.")
]
Named = Annotated[str, typer.Argument(metavar="NAME", help="The drone's name, as mcc drones lists it.")]


@service_command(app, "list")
def list_drones(call: ServiceCall, every: Every = False) -> None:
    """Drones: how full they are, how many messages they refused.

    Refused are messages that nobody can use: garbage, other tasks, orders of another database.

    Example: mcc drones
    """
    listed = call.client.drones.list(with_long_silent=every)
    if call.printed({"items": listed}):
        return
    rows = [
        (
            drone.name,
            drone.status,
            f"{drone.active}/{drone.slots}",
            drone.refused_messages,
            ",".join(drone.queues),
            drone.host,
            drone.pid,
            drone.sandbox.kind,
        )
        for drone in listed
    ]
    columns = ("NAME", "STATUS", "ACTIVE", "REFUSED", "QUEUES", "HOST", "PID", "SANDBOX")
    print_table(columns, rows, empty="No drone. Start one with: drone work")
    for drone in listed:
        for wall, why in _missing(drone.sandbox).items():
            say(f"{drone.name}: {wall} missing: {why}")


@app.callback(invoke_without_command=True)
def drones(
    context: typer.Context,
    every: Every = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Drones: how full they are; take one out of work. Without a further word, the list of them."""
    if context.invoked_subcommand is None:
        list_drones(every=every, url=url, data_dir=data_dir, as_json=as_json)


@service_command(app, "drain")
def drain(
    call: ServiceCall,
    name: Named,
    hand_back: Annotated[
        bool, typer.Option("--hand-back", help="Return the orders that it has to the queue, instead of ending them.")
    ] = False,
) -> None:
    """Let a drone take no more orders. It ends those that it has; it stays so until it is undrained or starts anew.

    Example: mcc drones drain gpu-1 --hand-back
    """
    told = call.client.drones.drain(name, hand_back=hand_back)
    if not call.printed({"items": told}):
        what = "hands back those that it has" if hand_back else "ends those that it has"
        say(f"{name} takes no more orders, and {what}. Let it work again: mcc drones undrain {name}")


@service_command(app, "undrain")
def undrain(call: ServiceCall, name: Named) -> None:
    """Let a drone take orders again.

    Example: mcc drones undrain gpu-1
    """
    told = call.client.drones.undrain(name)
    if not call.printed({"items": told}):
        say(f"{name} takes orders again.")


def _missing(sandbox: "SandboxState") -> Mapping[str, str]:
    """The parts of the sandbox that are missing, and why; "sandbox" alone where there is none at all."""
    from mcc.contracts.drones import OFF

    missing = sandbox.walls.missing
    return {"sandbox": next(iter(missing.values()), "")} if sandbox.kind == OFF else missing
