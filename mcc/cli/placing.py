"""Places an order with the running service, or with one started for it alone, and follows it to its end."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

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
from mcc.cli.following import follow, prompt_for, say_detached, withdraw
from mcc.cli.order_request import OrderRequest, allow_workspace, check_locally, checked_key
from mcc.cli.server import NONE_FOUND, ServiceAddress, exit_on_client_errors, find_server
from mcc.view.screens import Shown

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import NewOrder, WorkOrder
    from mcc.settings import ServiceSettings

EVERY, FINAL = "all", "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacingOptions:
    """Options of placing an order: the service, labels, queue and idempotency key, and what is shown."""

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
        """The fields of an order, None for options left out."""
        return {"labels": self.label or None, "queue": self.queue}

    @property
    def request_arguments(self) -> dict[str, Any]:
        """The arguments of an `OrderRequest` that these options give."""
        return {"key": checked_key(self.idempotency_key), "detach": self.detach, "quiet": self.quiet}

    @property
    def shown(self) -> Shown:
        if self.as_json not in (None, EVERY, FINAL):
            fail(f"--json={self.as_json}: write --json, or --json={FINAL}.", USAGE)
        return Shown.of(as_json=self.as_json is not None, quiet=self.quiet or self.as_json == FINAL)


class JsonLinesCommand(TyperCommand):
    """Lets `--json` stand alone beside `--json=final`: the parser knows it only as an option with a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = args.index("--") if "--" in args else len(args)
        given = [f"--json={EVERY}" if one == "--json" else one for one in args[:options]]
        return super().parse_args(ctx, [*given, *args[options:]])


def place_and_follow(
    request: OrderRequest, options: PlacingOptions, shown: Shown, *, conclude: "Callable[[MCC, WorkOrder], int]"
) -> NoReturn:
    """Place the order and follow it to its end, or with --detach print its id. Exits with the command's code, which
    `conclude` answers for an order that has ended."""
    sigterm_as_ctrl_c()
    try:
        with plain_errors(), _placed(request, options.url, options.data_dir) as (client, order, here_only):
            if request.detach:
                print_json(order, type="order") if shown.as_json else print(order.id)
                raise typer.Exit(DONE)
            try:
                follow(client, order.id, shown, prompt=prompt_for(client, order.id, shown))
            except KeyboardInterrupt:
                raise typer.Exit(withdraw(client, order.id) if here_only else say_detached(order.id)) from None
            raise typer.Exit(conclude(client, client.orders.get(order.id)))
    except KeyboardInterrupt:
        fail("Stopped before the order was accepted.", INTERRUPTED)


@contextmanager
def _placed(request: OrderRequest, url: str | None, data_dir: Path | None) -> "Iterator[tuple[MCC, WorkOrder, bool]]":
    """The client, the order as accepted, and whether the service was started for this order only."""
    from mcc.settings import load

    new = request.checked()
    settings = load(data_dir=data_dir)
    with (
        service_for(settings, url, request, new) as (server, here_only),
        exit_on_client_errors(settings.data_dir, server),
    ):
        from mcc.client import MCC

        with MCC(server.url, token=server.token) as client:
            yield client, submit(client, request, new, settings), here_only


def submit(client: "MCC", request: OrderRequest, new: "NewOrder", settings: "ServiceSettings") -> "WorkOrder":
    """Place the order. Where the service refuses its workspace, allow that directory, if the service is this user's
    own and on this machine, and try once more."""
    from mcc.client import Invalid
    from mcc.configuration.workspaces import is_git_address

    try:
        return request.place(client)
    except Invalid as refusal:
        outside = [error for error in refusal.errors if error.get("field") == "workspace"]
        if not outside or is_git_address(new.workspace or ""):
            raise
        # Without a workspace, `mcc generate` has used the current directory.
        located = new if new.workspace else new.model_copy(update={"workspace": str(Path().resolve())})
        request.tell(allow_workspace(located, settings, client.url, f"workspace: {outside[0].get('message')}"))
        return request.place(client)


def sigterm_as_ctrl_c() -> None:
    """Handle SIGTERM like Ctrl-C, so that the processes started here are stopped too."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@contextmanager
def service_for(
    settings: "ServiceSettings", url: str | None, request: OrderRequest, new: "NewOrder"
) -> Iterator[tuple[ServiceAddress, bool]]:
    """The service to use, and whether it was started for this order only, until the block ends."""
    with ExitStack() as stack:
        while True:
            if server := find_server(settings, url, lasting=True):
                yield server, False
                return
            if request.detach:
                fail(NONE_FOUND, UNREACHABLE)
            check_locally(new, settings)
            request.check_here(settings)
            if started := _start_service(settings, stack, request):
                yield started, True
                return


def _start_service(settings: "ServiceSettings", stack: ExitStack, request: OrderRequest) -> ServiceAddress | None:
    """Start a service for this order, until `stack` closes; None when another one started first on this directory."""
    from mcc.local.errors import FamilyRunning
    from mcc.local.family import Family, family_in_thread
    from mcc.local.programs import Staff

    request.tell("No service runs here: starting one for this order (mcc up keeps one).")
    if not request.quiet:
        say_configuration(settings)
    private = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    try:
        staff = Staff(flower=False, workspaces=(Path(request.order["workspace"] or "").resolve(),))
        family = stack.enter_context(family_in_thread(Family(private, staff, purpose="run", notify=request.tell)))
    except FamilyRunning:
        return None
    return ServiceAddress(family.url, family.token)
