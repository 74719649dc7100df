"""This room is for `mcc doctor`: every part looked at, and what to do about those that are not well."""

from typing import Annotated

import typer

from mcc.cli.options import DONE, FAILED, AsJson, DataDir, plain_errors

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "red")}


def doctor(
    seconds: Annotated[float, typer.Option(help="How long to wait for what does not answer.", min=0.1)] = 3.0,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Look at database, Redis, Celery, drones, sandbox, keys, prices, clock and disk.

    Each line is ok, warning or broken, with what to do; the exit code is 1 when something is broken.

    Example: mcc doctor --json | jq '.findings[] | select(.state != "ok")'
    """
    import os

    from mcc.cli.examination import examine
    from mcc.cli.printing import print_json
    from mcc.settings import load

    with plain_errors():
        findings = examine(load(data_dir=data_dir), os.environ, seconds)
    broken = any(finding.state == "broken" for finding in findings)
    if as_json:
        print_json({"ok": not broken, "findings": [finding.told() for finding in findings]})
    else:
        for finding in findings:
            _show(finding.state, finding.what, finding.detail, finding.advice)
    raise typer.Exit(FAILED if broken else DONE)


def _show(state: str, what: str, detail: str, advice: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from mcc.view.clean import one_line

    mark, style = MARKS[state]
    line = Text(f"{mark} {state:<8} ", style)
    line.append(f"{what:<12} ", "bold")
    line.append(one_line(detail, 500))
    if advice:
        line.append(f"  → {one_line(advice, 500)}")
    Console(highlight=False, soft_wrap=True).print(line)
