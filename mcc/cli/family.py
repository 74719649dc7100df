"""The commands `mcc down` and `mcc logs`: stop what `mcc up` started on a data directory, and show its logs."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import INTERRUPTED, USAGE, AsJson, DataDir, fail, plain_errors, print_json, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcc.local.log_lines import LogLine
    from mcc.settings import ServiceSettings


def down(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Stop what `mcc up` started on this data directory. Orders that run are kept, and go on with the next mcc up.

    Example: mcc down
    """
    from mcc.local.presence import Presence, await_family, end_family
    from mcc.settings import load

    with plain_errors():
        directory = load(data_dir=data_dir).data_dir
        family = await_family(directory)
        if isinstance(family, Presence) and family.purpose == "run":
            fail(f"An mcc run is at work on {directory} (pid {family.pid}): it ends with its order, or by Ctrl-C.")
        if isinstance(family, Presence):
            end_family(directory, family)
    stopped = isinstance(family, Presence)
    if as_json:
        pid = family.pid if isinstance(family, Presence) else None
        print_json({"stopped": stopped, "pid": pid, "data_dir": str(directory)})
        return
    say("Stopped; nothing runs." if stopped else f"Nothing runs on {directory}.")


def logs(
    process: Annotated[
        list[str] | None, typer.Argument(help="api, drone-1, flower, redis, up; all of them if left out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="So many last lines of each.", min=0, max=10_000)] = 20,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """The last lines of the logs of the processes on this data directory.

    Example: mcc logs -f drone-1
    """
    from mcc.contracts.similar import did_you_mean
    from mcc.local.log_lines import following, last_lines, logs_in
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
    directory = settings.data_dir / "logs"
    by_process = {log.process: log for log in logs_in(directory)}
    if not by_process:
        fail(f"There are no logs in {directory}: mcc up has never run on this data directory.")
    for name in process or ():
        if name not in by_process:
            fail(
                f"There is no log of {name!r}{did_you_mean(name, by_process)}; there is {', '.join(by_process)}.", USAGE
            )
    chosen = [by_process[name] for name in process] if process else list(by_process.values())
    try:
        _print(last_lines(chosen, lines), settings, as_json)
        if follow:
            _print(following(chosen), settings, as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _print(lines: "Iterable[LogLine]", settings: "ServiceSettings", as_json: bool) -> None:
    from mcc.settings import watched_secrets
    from mcc.view.output import clean

    redactor = watched_secrets(settings)
    for line in lines:
        text = redactor().text(line.text)
        if as_json:
            print_json({"process": line.process, "at": line.at or None, "text": text})
        else:
            print(f"{line.at[:19].replace('T', ' '):<19} {line.process:<8} {clean(text)}", flush=True)
