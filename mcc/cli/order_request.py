"""The order of a command line: made from options, checked before anything is started, and placed."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from mcc.cli.command import USAGE, fail, say
from mcc.cli.server import LAST, LOOPBACK, is_part_of_an_id, resolve_session_id

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import NewOrder, WorkOrder
    from mcc.settings import ServiceSettings


class RequestOptions(Protocol):
    def order(self) -> dict[str, Any]:
        """The fields of an order that these options set. Raises ValueError with a sentence."""


MOST_SEARCHED = 1_000
"""How many of the newest orders are searched for the last one of a workspace."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def metadata_in(pairs: Sequence[str], unset: Sequence[str] = ()) -> dict[str, Any] | None:
    """Metadata from `key=value` texts, values parsed as JSON where they are JSON, and None for each key in `unset`;
    None where there is nothing. Exits where a text is not of this form."""
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


def order_fields(*options: RequestOptions) -> dict[str, Any]:
    """The fields of an order that these options set. Exits where a value cannot be used."""
    try:
        return {name: value for one in options for name, value in one.order().items()}
    except ValueError as problem:
        fail(str(problem), USAGE)


def checked_key(key: str | None) -> str | None:
    if key is not None and not (1 <= len(key) <= 200 and all("!" <= character <= "~" for character in key)):
        fail("--idempotency-key: 1 to 200 visible ASCII characters, without a blank.", USAGE)
    return key


def time_in(
    text: str | None, now: datetime | None = None, *, option: str = "--not-before", ago: bool = False
) -> datetime | None:
    """A time in ISO 8601, in this machine's zone where it names none; or a duration from `now` on, or with `ago` before
    it: 90s, 10m, 1h30m, 2d. Exits where the text is neither."""
    if text is None:
        return None
    if (wait := _duration(text.strip())) is not None:
        return (now or datetime.now(UTC)) + (-wait if ago else wait)
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        fail(f"{option}: {text!r} is no time; write 10m, 1h30m, 2d, or 2026-01-31T12:00.", USAGE)


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
    """An order to place, with its idempotency key. `go_on`: as the next turn of the workspace's last session. `here`:
    its workspace is the current directory because none was named."""

    prompt: str
    order: Mapping[str, Any]
    key: str | None = None
    go_on: bool = False
    here: bool = False
    detach: bool = False
    quiet: bool = False

    def tell(self, sentence: str) -> None:
        """Print a sentence about progress, unless `quiet`."""
        if not self.quiet:
            say(sentence)

    def fields(self) -> dict[str, Any]:
        """The order's fields as far as they are known before a service is asked, for example for the last session."""
        from mcc.contracts.ids import is_identifier

        fields = {name: value for name, value in self.order.items() if value is not None}
        session = str(fields.get("session_id", "")).strip().lower()
        if not is_identifier(session) and (session == LAST or is_part_of_an_id(session)):
            del fields["session_id"]
        return {"prompt": self.prompt} | fields

    def checked(self) -> "NewOrder":
        """The validated order. Exits where no service would accept it."""
        from pydantic import ValidationError

        from mcc.contracts.order import NewOrder
        from mcc.rules.mistakes import mistakes

        if self.go_on and self.order["session_id"] is not None:
            fail("--continue and --session name two sessions: give one of them.", USAGE)
        try:
            return NewOrder.model_validate(self.fields())
        except ValidationError as error:
            fail(mistakes(error.errors(), NewOrder)[0].sentence, USAGE)

    def check_here(self, settings: "ServiceSettings") -> None:
        """Exit where a service with these settings would refuse the order; for subclasses with more to check."""

    def place(self, client: "MCC") -> "WorkOrder":
        """Place the order. Raises `ClientError`."""
        order = dict(self.order)
        if self.go_on:
            order["session_id"] = last_session(client, order["workspace"])
        elif (named := order.get("session_id")) is not None:
            order["session_id"] = resolve_session_id(client, named)
        if self.here and order.get("session_id") is not None:
            order = left_to_session(client, order, order["session_id"])
        return self.submit(client, order)

    def submit(self, client: "MCC", order: Mapping[str, Any]) -> "WorkOrder":
        return client.orders.submit(self.prompt, idempotency_key=self.key, attended=not self.detach, **order)


def check_locally(new: "NewOrder", settings: "ServiceSettings") -> None:
    """Exit where a service started here for this order would refuse it, before it is started."""
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


def allow_workspace(new: "NewOrder", settings: "ServiceSettings", url: str, refusal: str) -> str:
    """Let orders of the service on this machine work in the order's directory, until that service ends.

    Answers a sentence that says so. Exits with `refusal` and advice where the service is not this user's own, or not
    reached over loopback.
    """
    from mcc.configuration.places import NotPrivate
    from mcc.configuration.running import AddedRoots
    from mcc.local.presence import Presence, find_family

    workspace, family = Path(str(new.workspace)), find_family(settings.data_dir)
    what_to_do = f"Where that service was started: mcc up --workspace {shlex.quote(str(workspace))}"
    if not isinstance(family, Presence) or family.url != url or urlsplit(url).hostname not in LOOPBACK:
        fail(f"{refusal} {what_to_do}", USAGE)
    check_locally(new, settings)
    try:
        AddedRoots(settings.data_dir).add(workspace)
    except (OSError, NotPrivate) as problem:
        fail(f"{refusal} It cannot be added to them ({problem}). {what_to_do}", USAGE)
    return f"Orders may work in {workspace} too now, until `mcc down` (mcc up --workspace DIR says so from the start)."


def left_to_session(client: "MCC", order: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """The order without its workspace, where its session has one for its turns. Raises `ClientError`."""
    has_one = client.sessions.get(session_id, limit=1).workspace is not None
    return {**order, "workspace": None} if has_one else dict(order)


def last_session(client: "MCC", workspace: str) -> str:
    """The session of the newest order in `workspace`. Exits where there is none. Raises `ClientError`."""
    cursor, searched = None, 0
    while searched < MOST_SEARCHED:
        page = client.orders.list(limit=50, cursor=cursor)
        for order in page.items:
            if order.workspace == workspace:
                return order.session_id
        searched, cursor = searched + len(page.items), page.next_cursor
        if cursor is None:
            break
    fail(f"--continue: no earlier order worked in {workspace}; leave it out to begin a session.", USAGE)
