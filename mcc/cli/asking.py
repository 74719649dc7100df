"""What `mcc run` asks for: options made into an order, which is checked before anything is started."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from mcc.cli.command import USAGE, fail, say
from mcc.cli.server import LOOPBACK

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import NewOrder, WorkOrder
    from mcc.settings import Settings


class Options(Protocol):
    def order(self) -> dict[str, Any]:
        """The fields of an order that they say. Raises ValueError with a sentence."""


LOOKED_AT = 1_000
"""So many of the newest orders are looked through for the last one of a workspace."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def metadata_in(pairs: Sequence[str], unset: Sequence[str] = ()) -> dict[str, Any] | None:
    """`key=value`, each; a value that is JSON counts as that, all else as text. None for nothing."""
    values: dict[str, Any] = dict.fromkeys(unset)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            fail(f"{pair!r}: write key=value, for example ticket=OPS-17.", USAGE)
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError):
            values[key] = value
    return values or None


def said_by(*options: Options) -> dict[str, Any]:
    """The fields of an order that these say; the command ends where they cannot be used."""
    try:
        return {name: value for one in options for name, value in one.order().items()}
    except ValueError as problem:
        fail(str(problem), USAGE)


def key_in(key: str | None) -> str | None:
    if key is not None and not (1 <= len(key) <= 200 and all("!" <= character <= "~" for character in key)):
        fail("--idempotency-key: 1 to 200 visible ASCII characters, without a blank.", USAGE)
    return key


def moment_in(text: str | None, now: datetime | None = None) -> datetime | None:
    """A time as ISO 8601, of this machine's zone where it names none; or so far from `now`: 90s, 10m, 1h30m, 2d."""
    if text is None:
        return None
    if (wait := _duration(text.strip())) is not None:
        return (now or datetime.now(UTC)) + wait
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        fail(f"--not-before: {text!r} is no time; write 10m, 1h30m, 2d, or 2026-01-31T12:00.", USAGE)


def _duration(text: str) -> timedelta | None:
    seconds, digits = 0, ""
    for character in text:
        if character.isascii() and character.isdigit() and len(digits) < 6:
            digits += character
        elif digits and character in _UNITS:
            seconds, digits = seconds + int(digits) * _UNITS[character], ""
        else:
            return None
    return timedelta(seconds=seconds) if text and not digits else None


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """An order as the command line says it, with its idempotency key; `go_on`: in its workspace's last session."""

    prompt: str
    order: Mapping[str, Any]
    key: str | None = None
    go_on: bool = False
    detach: bool = False
    quiet: bool = False

    def tell(self, sentence: str) -> None:
        """Say what happens on the way, unless the answer alone is wanted."""
        if not self.quiet:
            say(sentence)

    def whole(self) -> dict[str, Any]:
        """What is sent of it, before a session is known."""
        return {"prompt": self.prompt} | {name: value for name, value in self.order.items() if value is not None}

    def checked(self) -> "NewOrder":
        """The order; refused when no service would take it."""
        from pydantic import ValidationError

        from mcc.contracts.order import NewOrder
        from mcc.rules.mistakes import mistakes

        if self.go_on and self.order["session_id"] is not None:
            fail("--continue and --session name two sessions: give one of them.", USAGE)
        try:
            return NewOrder.model_validate(self.whole())
        except ValidationError as error:
            fail(mistakes(error.errors(), NewOrder)[0].sentence, USAGE)

    def check_here(self, settings: "Settings") -> None:
        """What else a service of these settings would refuse."""

    def place(self, client: "MCC") -> "WorkOrder":
        """Raises `ClientError`."""
        order = dict(self.order)
        if self.go_on:
            order["session_id"] = last_session(client, order["workspace"])
        return self.submit(client, order)

    def submit(self, client: "MCC", order: Mapping[str, Any]) -> "WorkOrder":
        return client.orders.submit(self.prompt, idempotency_key=self.key, attended=not self.detach, **order)


def check_for_here(new: "NewOrder", settings: "Settings") -> None:
    """What a service that is started for this order alone would refuse is refused before that."""
    from mcc.api.problems import Unacceptable
    from mcc.api.submission import checked as accepted
    from mcc.configuration.workspaces import is_git_address
    from mcc.contracts.shape import now

    is_directory = new.workspace is not None and not is_git_address(new.workspace)
    workspace = Path(str(new.workspace)) if is_directory else None
    if workspace is not None and not workspace.is_dir():
        fail(f"workspace: {workspace} is not a directory.", USAGE)
    roots = (workspace,) if workspace is not None else ()
    try:
        accepted(new, settings.model_copy(update={"workspace_roots": roots}), (), now())
    except Unacceptable as refusal:
        fail(f"{refusal.field}: {refusal}", USAGE)


def let_work(new: "NewOrder", settings: "Settings", url: str, refusal: str) -> str:
    """Let orders of the family on this machine work in the directory that an order names, until that family ends.

    Answers what to say of it. Only where that family is this user's own and reached over loopback; the command ends
    with `refusal`, and with what would do, where it is not.
    """
    from mcc.configuration.places import NotPrivate
    from mcc.configuration.running import AddedRoots
    from mcc.local.presence import Presence, find_family

    workspace, family = Path(str(new.workspace)), find_family(settings.data_dir)
    what_to_do = f"Where that service was started: mcc up --workspace {shlex.quote(str(workspace))}"
    if not isinstance(family, Presence) or family.url != url or urlsplit(url).hostname not in LOOPBACK:
        fail(f"{refusal} {what_to_do}", USAGE)
    check_for_here(new, settings)
    try:
        AddedRoots(settings.data_dir).add(workspace)
    except (OSError, NotPrivate) as problem:
        fail(f"{refusal} It cannot be added to them ({problem}). {what_to_do}", USAGE)
    return f"Orders may work in {workspace} too now, until `mcc down` (mcc up --workspace DIR says so from the start)."


def last_session(client: "MCC", workspace: str) -> str:
    """The session of the newest order that worked there."""
    cursor, seen = None, 0
    while seen < LOOKED_AT:
        page = client.orders.list(limit=50, cursor=cursor)
        for order in page.items:
            if order.workspace == workspace:
                return order.session_id
        seen, cursor = seen + len(page.items), page.next_cursor
        if cursor is None:
            break
    fail(f"--continue: no earlier order worked in {workspace}; leave it out to begin a session.", USAGE)
