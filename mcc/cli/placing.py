"""An order placed with the service that runs, or with one that is started for it alone, and followed to its end."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from mcc.cli.asking import OrderRequest, check_for_here, key_in, let_work
from mcc.cli.command import (
    DONE,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    DataDir,
    Url,
    fail,
    plain_errors,
    print_json,
    say_configuration,
)
from mcc.cli.following import Shown, detached, follow, prompt_of, withdraw
from mcc.cli.server import NONE_FOUND, Server, find_server, refusals

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import NewOrder, WorkOrder
    from mcc.settings import Settings

EVERY, FINAL = "all", "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacingOptions:
    """Which service takes an order, under which names, and what is shown of it."""

    label: Annotated[list[str] | None, typer.Option(help="A label to find it by; may be repeated.")] = None
    queue: Annotated[str, typer.Option(help="Queue of the drones that shall do it.")] = "default"
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key and order again place no second order.")
    ] = None
    detach: Annotated[bool, typer.Option("--detach", help="Print the order's id and go.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone, or why none.")] = False
    url: Url = None
    data_dir: DataDir = None
    as_json: Annotated[
        str | None,
        typer.Option("--json", metavar="[=final]", help="For machines: JSON lines on stdout, or the last one alone."),
    ] = None

    def order(self) -> dict[str, Any]:
        """The fields of an order, None for what was not said."""
        return {"labels": self.label or None, "queue": self.queue}

    @property
    def asked(self) -> dict[str, Any]:
        """What an `OrderRequest` knows of them."""
        return {"key": key_in(self.idempotency_key), "detach": self.detach, "quiet": self.quiet}

    @property
    def shown(self) -> Shown:
        if self.as_json not in (None, EVERY, FINAL):
            fail(f"--json={self.as_json}: write --json, or --json={FINAL}.", USAGE)
        return Shown.of(as_json=self.as_json is not None, quiet=self.quiet or self.as_json == FINAL)


class JsonLinesCommand(TyperCommand):
    """`--json` alone stands for all lines; of `--json=final` the parser itself knows nothing but with a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = args.index("--") if "--" in args else len(args)
        given = [f"--json={EVERY}" if one == "--json" else one for one in args[:options]]
        return super().parse_args(ctx, [*given, *args[options:]])


def place_and_follow(
    request: OrderRequest, options: PlacingOptions, shown: Shown, *, conclude: "Callable[[MCC, WorkOrder], int]"
) -> NoReturn:
    """Place what is asked and follow it, or leave it there; ends with the exit code, of an order that has ended that
    of `conclude`."""
    end_as_from_the_keyboard()
    try:
        with plain_errors(), _placed(request, options.url, options.data_dir) as (client, order, here_only):
            if request.detach:
                print_json(order, type="order") if shown.as_json else print(order.id)
                raise typer.Exit(DONE)
            try:
                follow(client, order.id, shown, prompt=prompt_of(client, order.id, shown))
            except KeyboardInterrupt:
                raise typer.Exit(withdraw(client, order.id) if here_only else detached(order.id)) from None
            raise typer.Exit(conclude(client, client.orders.get(order.id)))
    except KeyboardInterrupt:
        fail("Stopped before the order was accepted.", INTERRUPTED)


@contextmanager
def _placed(request: OrderRequest, url: str | None, data_dir: Path | None) -> "Iterator[tuple[MCC, WorkOrder, bool]]":
    """The client that asked, the order as accepted, and whether the service runs for this order only."""
    from mcc.settings import load

    new = request.checked()
    settings = load(data_dir=data_dir)
    with serving(settings, url, request, new) as (there, here_only), refusals(settings.data_dir):
        from mcc.client import MCC

        with MCC(there.url, token=there.token) as client:
            yield client, _accepted(client, request, new, settings), here_only


def _accepted(client: "MCC", request: OrderRequest, new: "NewOrder", settings: "Settings") -> "WorkOrder":
    """The order as accepted, in a directory that was not among the family's before where that is its user's own."""
    from mcc.client import Invalid
    from mcc.configuration.workspaces import is_git_address

    try:
        return request.place(client)
    except Invalid as refusal:
        outside = [one for one in refusal.errors if one.get("field") == "workspace"]
        if not outside or is_git_address(new.workspace or ""):
            raise
        # Where none was named, it is the current one.
        there = new if new.workspace else new.model_copy(update={"workspace": str(Path().resolve())})
        request.tell(let_work(there, settings, client.url, f"workspace: {outside[0].get('message')}"))
        return request.place(client)


def end_as_from_the_keyboard() -> None:
    """SIGTERM counts as Ctrl-C, so that no process stays behind."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@contextmanager
def serving(
    settings: "Settings", url: str | None, request: OrderRequest, new: "NewOrder"
) -> Iterator[tuple[Server, bool]]:
    """The service to talk to, and whether that service runs for this order only."""
    with ExitStack() as stack:
        while True:
            if server := find_server(settings, url, lasting=True):
                yield server, False
                return
            if request.detach:
                fail(NONE_FOUND, UNREACHABLE)
            check_for_here(new, settings)
            request.check_here(settings)
            if own := _brought(settings, stack, request):
                yield own, True
                return


def _brought(settings: "Settings", stack: ExitStack, request: OrderRequest) -> Server | None:
    """A family for the order that is asked, until `stack` closes; None when another family started first."""
    from mcc.local.errors import FamilyRunning
    from mcc.local.family import Family, family_in_thread
    from mcc.local.programs import Staff

    request.tell("No service runs here: starting one for this order (mcc up keeps one).")
    if not request.quiet:
        say_configuration(settings)
    own = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    try:
        staff = Staff(flower=False, workspaces=(Path(request.order["workspace"] or "").resolve(),))
        family = stack.enter_context(family_in_thread(Family(own, staff, purpose="run", notify=request.tell)))
    except FamilyRunning:
        return None
    return Server(family.url, family.token)
