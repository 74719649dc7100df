"""The command `mcc`: every command by name."""

import os
from typing import Annotated, Literal

import typer

from mcc.cli import (
    agents,
    backups,
    blueprints,
    chat,
    config,
    derived,
    doctor,
    documents,
    drones,
    family,
    generate,
    housekeeping,
    inbox,
    init,
    lists,
    login,
    model_calls,
    notes,
    open_page,
    orders,
    people,
    run,
    schedules,
    sessions,
    tools,
    triggers,
    up,
    webhooks,
    work_done,
)
from mcc.cli.placing import JsonLinesCommand
from mcc.cli.server import reading_command, service_command
from mcc.view.output import write_anything

COMPLETE = "_MCC_COMPLETE"
"""The environment variable with which a shell's completion script asks for completions."""

COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
"""zsh has no `compdef` until compinit was run, which a plain ~/.zshrc does not do."""

app = typer.Typer(
    name="mcc",
    help="MCC keeps work orders for AI agents; drones do them.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 no service reached, 130 stopped from the keyboard. "
    "Start with: mcc up",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from mcc import __version__

        print(f"mcc {__version__}")
        raise typer.Exit


@app.callback()
def _mcc(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """MCC keeps work orders for AI agents; drones do them."""


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")]) -> None:
    """The script by which a shell completes commands and options of mcc, for its start file: ~/.bashrc, ~/.zshrc, or
    ~/.config/fish/completions/mcc.fish.

    Example: mcc completion bash >> ~/.bashrc
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="mcc", complete_var=COMPLETE, shell=shell)
    print(script.replace("\ncompdef ", f"\n{COMPINIT}\ncompdef ") if shell == "zsh" else script)


app.command("init")(init.init)
app.command("up")(up.up)
app.command("down")(family.down)
app.command("logs")(family.logs)
app.command("serve")(up.serve)
app.command("run", cls=JsonLinesCommand)(run.run)
app.command("chat")(chat.chat)
app.command("generate", cls=JsonLinesCommand)(generate.generate)
app.add_typer(orders.app, name="orders", epilog="Example: mcc orders list --status waiting")
for command in (derived.retry, derived.fork, derived.deliver, derived.rollback, derived.revert):
    service_command(orders.app)(command)
reading_command(orders.app)(work_done.diff)
reading_command(orders.app)(work_done.log)
service_command(orders.app)(model_calls.call)
service_command(app, "open")(open_page.open_page)
service_command(app, "inbox")(inbox.inbox)
service_command(orders.app, "approve")(inbox.approve)
service_command(orders.app, "deny")(inbox.deny)
service_command(orders.app, "answer")(inbox.answer)
app.add_typer(inbox.grants, name="grants", epilog="Example: mcc grants list")
service_command(app)(lists.usage)
service_command(app)(lists.failures)
app.add_typer(lists.views, name="views", epilog="Example: mcc views list")
app.add_typer(sessions.app, name="sessions", epilog="Example: mcc sessions list")
app.add_typer(schedules.app, name="schedules", epilog="Example: mcc schedules list")
app.add_typer(triggers.app, name="triggers", epilog="Example: mcc triggers list")
app.add_typer(drones.app, name="drones", epilog="Example: mcc drones list")
app.add_typer(agents.app, name="agents", epilog="Example: mcc agents list")
service_command(app, "models")(agents.models)
app.add_typer(tools.app, name="tools", epilog="Example: mcc tools list")
app.add_typer(blueprints.app, name="blueprints", epilog="Example: mcc blueprints show course")
app.add_typer(documents.app, name="documents", epilog="Example: mcc documents list")
app.add_typer(notes.app, name="notes", epilog="Example: mcc notes list")
app.add_typer(people.people, name="people", epilog="Example: mcc people list")
app.add_typer(people.tokens, name="tokens", epilog="Example: mcc tokens list")
app.command("login")(login.login)
app.command("logout")(login.logout)
app.add_typer(webhooks.app, name="webhooks", epilog="Example: mcc webhooks add ci https://ci.example.com/hook")
service_command(app, "me")(people.me)
service_command(app, "audit")(people.audit)
app.add_typer(doctor.app, name="db", epilog="Example: mcc db upgrade")
app.add_typer(config.app, name="config", epilog="Example: mcc config show")
app.command("doctor")(doctor.doctor)
app.command("prune")(housekeeping.prune)
app.command("backup")(backups.backup)
app.command("restore")(backups.restore)
app.command("completion")(completion)


def main() -> None:
    write_anything()
    if COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    app(prog_name="mcc")


if __name__ == "__main__":
    main()
