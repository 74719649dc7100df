"""The command `mcc run`: one order, submitted and followed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand

from mcc.cli.asking import Asked, check_for_here, key_in, let_work, limits_in, moment_in, schema_in
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
from mcc.cli.following import Shown, conclude, detached, follow, withdraw
from mcc.cli.run_options import (
    Agent,
    Detach,
    GoOn,
    IdempotencyKey,
    InSession,
    JsonLines,
    Label,
    Limit,
    MaxOutputTokens,
    MaxRevisions,
    Model,
    NotBefore,
    Prompt,
    Queue,
    Quiet,
    Rule,
    Schema,
    ServiceTier,
    Temperature,
    Thinking,
    VerifyAgent,
    VerifyRubric,
    Workspace,
)
from mcc.cli.server import NONE_FOUND, Server, find_server, refusals

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import NewOrder, WorkOrder
    from mcc.settings import Settings


def run(
    prompt: Prompt,
    workspace: Workspace = None,
    agent: Agent = "master",
    model: Model = None,
    thinking: Thinking = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    service_tier: ServiceTier = None,
    session: InSession = None,
    go_on: GoOn = False,
    limit: Limit = None,
    label: Label = None,
    queue: Queue = "default",
    schema: Schema = None,
    rule: Rule = None,
    verify_rubric: VerifyRubric = None,
    verify_agent: VerifyAgent = None,
    max_revisions: MaxRevisions = None,
    not_before: NotBefore = None,
    idempotency_key: IdempotencyKey = None,
    detach: Detach = False,
    quiet: Quiet = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: JsonLines = None,
) -> None:
    """Submit one work order and follow it to its end: progress on stderr, the answer on stdout.

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
        "limits": limits_in(limit or []),
        "labels": label or None,
        "queue": queue,
        "result_schema": schema_in(schema),
        "rules": [{"cel": one} for one in rule or []] or None,
        "verify": {name: value for name, value in verify.items() if value is not None} or None,
        "not_before": moment_in(not_before),
        "workspace": str((workspace or Path()).resolve()),
    }
    asked = Asked(_read() if prompt == "-" else prompt, order, key_in(idempotency_key), go_on, detach, quiet)
    _run(asked, _shown(as_json, quiet), url, data_dir)


def _run(asked: Asked, shown: Shown, url: str | None, data_dir: Path | None) -> NoReturn:
    _end_as_from_the_keyboard()
    try:
        with plain_errors(), _placed(asked, url, data_dir) as placed:
            raise typer.Exit(_end(*placed, asked.detach, shown))
    except KeyboardInterrupt:
        fail("Stopped before the order was accepted.", INTERRUPTED)


def _shown(as_json: str | None, quiet: bool) -> Shown:
    if as_json not in (None, EVERY, FINAL):
        fail(f"--json={as_json}: write --json, or --json={FINAL}.", USAGE)
    return Shown.of(as_json=as_json is not None, quiet=quiet or as_json == FINAL)


EVERY, FINAL = "all", "final"


class RunCommand(TyperCommand):
    """`--json` alone stands for all lines; of `--json=final` the parser itself knows nothing but with a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = args.index("--") if "--" in args else len(args)
        given = [f"--json={EVERY}" if one == "--json" else one for one in args[:options]]
        return super().parse_args(ctx, [*given, *args[options:]])


@contextmanager
def _placed(asked: Asked, url: str | None, data_dir: Path | None) -> "Iterator[tuple[MCC, WorkOrder, bool]]":
    """The client that asked, the order as accepted, and whether the service runs for this order only."""
    from mcc.settings import load

    new = asked.checked()
    settings = load(data_dir=data_dir)
    with _serving(settings, url, asked, new) as (there, here_only), refusals(settings.data_dir):
        from mcc.client import MCC

        with MCC(there.url, token=there.token) as client:
            yield client, _accepted(client, asked, new, settings), here_only


def _accepted(client: "MCC", asked: Asked, new: "NewOrder", settings: "Settings") -> "WorkOrder":
    """The order as accepted, in a directory that was not among the family's before where that is its user's own."""
    from mcc.client import Invalid

    try:
        return asked.place(client)
    except Invalid as refusal:
        outside = [one for one in refusal.errors if one.get("field") == "workspace"]
        if not outside:
            raise
        asked.tell(let_work(new, settings, client.url, f"workspace: {outside[0].get('message')}"))
        return asked.place(client)


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
def _serving(settings: "Settings", url: str | None, asked: Asked, new: "NewOrder") -> Iterator[tuple[Server, bool]]:
    """The service to talk to, and whether that service runs for this order only."""
    with ExitStack() as stack:
        while True:
            if server := find_server(settings, url, lasting=True):
                yield server, False
                return
            if asked.detach:
                fail(NONE_FOUND, UNREACHABLE)
            check_for_here(new, settings)
            if own := _brought(settings, stack, asked):
                yield own, True
                return


def _brought(settings: "Settings", stack: ExitStack, asked: Asked) -> Server | None:
    """A family for the order that is asked, until `stack` closes; None when another family started first."""
    from mcc.local.errors import FamilyRunning
    from mcc.local.family import Family, family_in_thread
    from mcc.local.programs import Staff

    asked.tell("No service runs here: starting one for this order (mcc up keeps one).")
    if not asked.quiet:
        say_configuration(settings)
    own = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    try:
        staff = Staff(flower=False, workspaces=(Path(asked.order["workspace"]),))
        family = stack.enter_context(family_in_thread(Family(own, staff, purpose="run", notify=asked.tell)))
    except FamilyRunning:
        return None
    return Server(family.url, family.token)
