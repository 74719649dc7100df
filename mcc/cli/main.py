"""The command `mcc`: every command by name."""

import typer

from mcc.cli import agents, backups, config, doctor, family, housekeeping, orders, run, sessions, up
from mcc.cli.server import service_command

app = typer.Typer(
    name="mcc",
    help="MCC keeps work orders for AI agents; drones do them.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 no service reached, 130 stopped from the keyboard. "
    "Start with: mcc up",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("down")(family.down)
app.command("logs")(family.logs)
app.command("serve")(up.serve)
app.command("run", cls=run.RunCommand)(run.run)
app.add_typer(orders.app, name="orders")
app.add_typer(sessions.app, name="sessions")
service_command(app, "drones")(agents.drones)
app.add_typer(agents.app, name="agents")
service_command(app, "models")(agents.models)
app.add_typer(doctor.app, name="db")
app.add_typer(config.app, name="config")
app.command("doctor")(doctor.doctor)
app.command("prune")(housekeeping.prune)
app.command("backup")(backups.backup)
app.command("restore")(backups.restore)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
