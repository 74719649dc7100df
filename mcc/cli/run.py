"""The command `mcc run`: one order or a file of them, submitted and followed."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from mcc.cli.attaching import RequestWithFiles, checked_files
from mcc.cli.command import USAGE, fail
from mcc.cli.following import conclude
from mcc.cli.many_orders import place_file
from mcc.cli.order_request import OrderRequest, metadata_in, order_fields, time_in
from mcc.cli.placing import PlacingOptions, place_and_follow
from mcc.options import DeliverOptions, OrderOptions, VerifyOptions, names_in, object_in, taking_options


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """Options of one turn: workspace, agent, session and time, the form of its result, metadata and controls."""

    workspace: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY|https://…",
            help="Directory or git address; that of the session, or the current one, if left out.",
        ),
    ] = None
    write: Annotated[
        bool, typer.Option("--write", help="Be alone in writing in the workspace from the beginning on.")
    ] = False
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit of a git address.")] = None
    agent: Annotated[str | None, typer.Option(help="Agent to ask; that of the session, or master, if left out.")] = None
    session: Annotated[str | None, typer.Option(help="Session to go on with: its id, an end of it, or @last.")] = None
    go_on: Annotated[bool, typer.Option("--continue", help="Go on with the last session of this workspace.")] = False
    attach: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A picture, a PDF or a text that it is shown; may be repeated."),
    ] = None
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For its tools and for programs; may be repeated.")
    ] = None
    control: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Take only these while it runs: pause, resume, steer, set_metadata, cancel (of one agent) or none;"
            " may be repeated.",
        ),
    ] = None
    schema: Annotated[str | None, typer.Option(metavar="FILE|JSON", help="JSON Schema that the result must fit.")] = (
        None
    )
    rule: Annotated[
        list[str] | None, typer.Option(metavar="CEL", help="A rule that the result must keep; may be repeated.")
    ] = None
    not_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin no sooner: 10m, 1h30m, 2d, or a time in ISO 8601.")
    ] = None

    def order(self) -> dict[str, Any]:
        return {
            **workspace_fields(self.workspace, self.ref),
            "write": self.write or None,
            "agent": self.agent,
            "session_id": self.session,
            "metadata": metadata_in(self.metadata or []),
            "controls": names_in(self.control),
            "result_schema": object_in(self.schema, "--schema"),
            "rules": [{"cel": rule} for rule in self.rule or []] or None,
            "not_before": time_in(self.not_before),
        }


@taking_options
def run(
    turn: TurnOptions,
    options: OrderOptions,
    verify: VerifyOptions,
    deliver: DeliverOptions,
    placing: PlacingOptions,
    prompt: Annotated[str | None, typer.Argument(help="What to do; - reads it from standard input.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|-",
            help="Many orders instead of one: a JSON object a line with the fields of an order, of which the options"
            " are the defaults.",
        ),
    ] = None,
) -> None:
    """Submit one work order and follow it to its end: progress on stderr, the answer on stdout.

    With --file, many orders, each accepted by itself: a line that cannot be accepted is reported with its number, and
    the others go on. The same command again goes on where one was stopped, and places no order twice.

    Where no service runs and none is named, one is started for this command alone. Ctrl-C stops following, not the
    order; but it cancels an order for which the service was started, as nothing would be left to do it.

    Example: mcc run "Explain this repository" --workspace . --limit rounds=20 --limit cost_usd=0.50
    """
    if (prompt is None) == (file is None):
        fail("Say what to do: a prompt, or --file with one order a line.", USAGE)
    order = order_fields(turn, options, verify, deliver, placing)
    if file is not None:
        _refuse_options_of_one_order(turn)
        defaults = OrderRequest(PLACEHOLDER, order, **placing.request_arguments)
        place_file(file, defaults, placing, placing.shown)
    assert prompt is not None
    text = _read_prompt() if prompt == "-" else prompt
    files, here = checked_files(turn.attach or []), turn.workspace is None
    request = RequestWithFiles(text, order, go_on=turn.go_on, here=here, files=files, **placing.request_arguments)
    shown = placing.shown
    place_and_follow(request, placing, shown, conclude=lambda client, order: conclude(order, shown))


PLACEHOLDER = "-"
"""The prompt with which the options of a whole file are validated."""


def _refuse_options_of_one_order(turn: TurnOptions) -> None:
    of_one = ((turn.session, "--session"), (turn.go_on, "--continue"), (turn.not_before, "--not-before"))
    for value, option in (*of_one, (turn.attach, "--attach")):
        if value:
            fail(f"{option} belongs to one order: with --file, say it in the lines that it is for.", USAGE)


def workspace_fields(where: str | None, ref: str | None) -> dict[str, str | None]:
    """The fields `workspace` and `ref`: a git address unchanged, else a directory's absolute path; None = the current
    directory."""
    from mcc.configuration.workspaces import is_git_address

    is_address = where is not None and is_git_address(where)
    return {"workspace": where if is_address else str(Path(where or "").resolve()), "ref": ref}


def _read_prompt() -> str:
    """The prompt from standard input, cut at one character more than any service takes."""
    from mcc.contracts.order import PROMPT_CHARACTERS

    try:
        return sys.stdin.read(PROMPT_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        fail(f"The prompt on standard input is not UTF-8 text ({error.reason}).", USAGE)
