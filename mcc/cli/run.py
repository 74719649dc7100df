"""The command `mcc run`: one order, submitted and followed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mcc.cli.command import (
    DONE,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    AsJson,
    DataDir,
    Url,
    fail,
    plain_errors,
    print_json,
    say,
    say_configuration,
)
from mcc.cli.following import Shown, conclude, detached, follow, withdraw
from mcc.cli.server import NONE_FOUND, Server, find_server, refusals

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.limits import Limits
    from mcc.contracts.order import WorkOrder
    from mcc.settings import Settings


def run(
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")],
    workspace: Annotated[Path | None, typer.Option(help="Directory to work in; the current one if left out.")] = None,
    agent: Annotated[str, typer.Option(help="Agent to ask.")] = "master",
    model: Annotated[str | None, typer.Option(help="Alias or provider/model.")] = None,
    thinking: Annotated[
        str | None, typer.Option(help="How much the model thinks: off, minimal, low, medium, high, xhigh or max.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Temperature of the model's replies, 0 to 2.")] = None,
    max_output_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply.")] = None,
    service_tier: Annotated[str | None, typer.Option(help="How the provider ranks the request, in its word.")] = None,
    session: Annotated[str | None, typer.Option(help="Session to go on with, by its id.")] = None,
    limit: Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="A label to find it by; may be repeated.")] = None,
    queue: Annotated[str, typer.Option(help="Queue of the drones that shall do it.")] = "default",
    verify_rubric: Annotated[str | None, typer.Option(help="Judge the answer by this before it counts.")] = None,
    verify_agent: Annotated[str | None, typer.Option(help="Let this agent judge the answer before it counts.")] = None,
    max_revisions: Annotated[int | None, typer.Option(help="Send it back so often at most (1).", min=0, max=2)] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Print the order's id and go.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone, or why none.")] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Submit one work order and follow it to its end.

    Where no service runs and none is named, one is started for this order alone. Ctrl-C stops following, not the
    order, unless it was started so: then there is nobody left to do it.

    Example: mcc run "Explain this repository" --workspace . --limit rounds=20 --limit cost_usd=0.50
    """
    verify = {"rubric": verify_rubric, "agent": verify_agent, "max_revisions": max_revisions}
    order: dict[str, Any] = {
        "agent": agent,
        "model": model,
        "thinking": thinking,
        "temperature": temperature,
        "max_output_tokens": max_output_tokens,
        "service_tier": service_tier,
        "session_id": session,
        "limits": _limits(limit or []),
        "labels": label or None,
        "queue": queue,
        "verify": {name: value for name, value in verify.items() if value is not None} or None,
        "workspace": str((workspace or Path()).resolve()),
    }
    _end_as_from_the_keyboard()
    try:
        with plain_errors(), _asked(_read() if prompt == "-" else prompt, order, url, data_dir, detach) as asked:
            raise typer.Exit(_end(*asked, detach, Shown.of(as_json=as_json, quiet=quiet)))
    except KeyboardInterrupt:
        fail("Stopped before the order was accepted.", INTERRUPTED)


@contextmanager
def _asked(
    prompt: str, order: dict[str, Any], url: str | None, data_dir: Path | None, detach: bool
) -> "Iterator[tuple[MCC, WorkOrder, bool]]":
    """The client that asked, the order as accepted, and whether the service runs for this order only."""
    from mcc.settings import load

    settings = load(data_dir=data_dir)
    _check(prompt, order)
    with _serving(settings, url, detach) as (there, here_only), refusals():
        from mcc.client import MCC

        with MCC(there.url, token=there.token) as client:
            yield client, client.orders.submit(prompt, **order), here_only


def _read() -> str:
    """The prompt from standard input, no more of it than any service would take."""
    from mcc.contracts.order import PROMPT_CHARACTERS

    try:
        return sys.stdin.read(PROMPT_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        fail(f"The prompt on standard input is not UTF-8 text ({error.reason}).", USAGE)


def _end(client: "MCC", order: "WorkOrder", here_only: bool, detach: bool, shown: Shown) -> int:
    """Follow `order` to its end, or leave it; answers the exit code."""
    if detach:
        print_json(order, type="order") if shown.as_json else print(order.id)
        return DONE
    try:
        follow(client, order.id, shown)
    except KeyboardInterrupt:
        return withdraw(client, order.id) if here_only else detached(order.id)
    return conclude(client.orders.get(order.id), shown)


def _end_as_from_the_keyboard() -> None:
    """SIGTERM counts as Ctrl-C, so that no process stays behind."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@contextmanager
def _serving(settings: "Settings", url: str | None, detach: bool) -> Iterator[tuple[Server, bool]]:
    """The service to talk to, and whether that service runs for this order only."""
    with ExitStack() as stack:
        while True:
            if server := find_server(settings, url, lasting=True):
                yield server, False
                return
            if detach:
                fail(NONE_FOUND, UNREACHABLE)
            if own := _brought(settings, stack):
                yield own, True
                return


def _brought(settings: "Settings", stack: ExitStack) -> Server | None:
    """A family for this order, until `stack` closes; None when another family started first."""
    from mcc.local.errors import FamilyRunning
    from mcc.local.family import Family, family_in_thread
    from mcc.local.programs import Staff

    say("No service runs here: starting one for this order (mcc up keeps one).")
    say_configuration(settings)
    own = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    try:
        family = stack.enter_context(family_in_thread(Family(own, Staff(flower=False), purpose="run", notify=say)))
    except FamilyRunning:
        return None
    return Server(family.url, family.token)


def _limits(pairs: list[str]) -> "Limits | None":
    from mcc.definitions.agents import limits_of

    try:
        return limits_of(pairs) if pairs else None
    except ValueError as problem:
        fail(f"{problem}", USAGE)


def _check(prompt: str, order: dict[str, Any]) -> None:
    """Refuse an order that no service would take, before anything is started."""
    from pydantic import ValidationError

    from mcc.contracts.mistakes import mistakes
    from mcc.contracts.order import NewOrder

    try:
        NewOrder.model_validate(
            {"prompt": prompt} | {name: value for name, value in order.items() if value is not None}
        )
    except ValidationError as error:
        fail(mistakes(error.errors())[0].sentence, USAGE)
