"""The demo of `make demo`: starts all processes, places one order on this repository, and shows its result."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.settings import ServiceSettings

PROMPT = "Explain this repository"
CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Answers the exit code: 0 when the order succeeded, and also after Ctrl-C, as make would report an error."""
    from mcc.cli.command import INTERRUPTED, say
    from mcc.view.output import write_anything

    write_anything()
    try:
        code = _demonstrate()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code != INTERRUPTED:
        return code
    say("Stopped; nothing runs.")
    return 0


def _demonstrate() -> int:
    """Start a family of processes, and place one order with it. Answers the order's exit code.

    Unless MCC_DATA_DIR is set, it uses a data directory of its own, so that it does not meet a family that runs here.
    """
    from mcc.cli.command import plain_errors, say_configuration
    from mcc.cli.server import exit_on_client_errors
    from mcc.client import MCC
    from mcc.configuration.places import demo_data_dir
    from mcc.local.family import Family, family_in_thread
    from mcc.local.programs import Staff
    from mcc.settings import load

    with plain_errors():
        data_dir = None if os.environ.get("MCC_DATA_DIR") else demo_data_dir(os.environ)
        settings = load(data_dir=data_dir, port=0, host="127.0.0.1", workspace_roots=(CHECKOUT,))
        say_configuration(settings)
        print(f"Starting Redis, API and a drone; everything is kept in {settings.data_dir} …", flush=True)
        with family_in_thread(Family(settings, Staff(flower=False), purpose="run", notify=print)) as family:
            print(f"Ready at {family.url}. Order: “{PROMPT}” on {CHECKOUT}\n", flush=True)
            with exit_on_client_errors(settings.data_dir), MCC(family.url, token=family.token) as client:
                return _show_one_order(client, settings)


def _show_one_order(client: "MCC", settings: "ServiceSettings") -> int:
    from mcc.cli.following import conclude, follow, withdraw
    from mcc.view.screens import Shown

    order_id = client.orders.submit(PROMPT, workspace=CHECKOUT).id
    try:
        follow(client, order_id, Shown.ALL)
    except KeyboardInterrupt:
        return withdraw(client, order_id)
    code = conclude(client.orders.get(order_id), Shown.ALL)
    _account_for(client, order_id, settings)
    return code


def _account_for(client: "MCC", order_id: str, settings: "ServiceSettings") -> None:
    """Print which model the order used, what it cost, and where it is kept."""
    from mcc.cli.command import print_pairs, print_wrapped
    from mcc.client import NotFound
    from mcc.configuration.providers import OFFLINE, any_key
    from mcc.view import figures

    order = client.orders.get(order_id)
    usage, place = order.usage, settings.data_dir
    quoted = shlex.quote(str(place))
    print(f"\n{'─' * 60}")
    try:
        record = client.orders.record(order_id)
    except NotFound:
        print(f"order   {order_id}\nNo agent started, so there is no record.")
        return
    model = record.model.effective if record.model else ""
    offline = model.startswith(OFFLINE)
    savings = figures.saved_by_delegation(record)
    delegated = f"{savings.tokens:,} tokens ({savings.share:.0%}) of the subagents' work never reached the master"
    print_pairs(
        (
            ("order", order.id),
            ("record", f"{record.id} (the master's, with {len(record.subagent_history)} subagents under it)"),
            ("model", model),
            ("spent", f"{figures.spent(usage)}, {usage.model_calls} model calls, {usage.tool_calls} tool calls"),
            ("delegated", None if offline else delegated),
            ("kept in", place),
            ("look again", f"mcc up --data-dir {quoted}, then: mcc orders record {order.id} --data-dir {quoted}"),
        )
    )
    if offline:
        print_wrapped(
            "This was the offline model, which follows fixed rules: no other one is set up here. "
            f"Set {any_key()}, or start Ollama, to have a language model do it.",
            indent=0,
        )


if __name__ == "__main__":
    import typer

    try:
        sys.exit(main())
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
