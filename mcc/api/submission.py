"""Checks before an order is accepted: whether this version and the live drones can execute it at all."""

import os.path
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path, PurePosixPath

from mcc.addresses import AddressRefused
from mcc.api.problems import Unacceptable
from mcc.configuration.forges import forge_of, unknown_forge
from mcc.configuration.providers import PROVIDERS, provider
from mcc.configuration.running import AddedRoots
from mcc.configuration.workspaces import git_address, is_git_address
from mcc.contracts.agents import INHERIT
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.git_delivery import Deliver
from mcc.contracts.order import NewOrder, OrderKind
from mcc.contracts.shape import to_json
from mcc.contracts.similar import close_matches, did_you_mean
from mcc.definitions.rights import TOOL_GROUPS
from mcc.definitions.scopes import WORKSPACE_DIRECTORY
from mcc.permission.declared import CHARACTERS, characters, problems
from mcc.rules.errors import ExpressionError, SchemaError
from mcc.rules.report import REPORT_NAME, resolved
from mcc.rules.rule import check_declared
from mcc.rules.schema import checked_schema
from mcc.settings import ServiceSettings
from mcc.webhooks.sending import WebhookForm

CHAT_ONLY = ("result_schema", "rules", "verify")

UNCHECKED = frozenset(
    {"prompt", "session_id", "labels", "metadata", "priority", "when_busy", "not_before", "expires_at"}
)
"""Fields that `_checked` does not look at: their form alone decides, or `_check_times`. Orders that differ only in
these share one check."""

RULE_CHARACTERS = 20_000
"""The most CEL in all rules of one order. Parsing that much takes up to about half a second."""


def checked(new: NewOrder, settings: ServiceSettings, drones: Sequence[Registration], now: datetime) -> NewOrder:
    """`new` with its workspace normalised. Raises `Unacceptable`.

    Whether the workspace exists is not checked here but by the drone, which may run on another machine.
    """
    _check_times(new, now)
    return _with_workspace(new, _checked(new, settings, drones))


def checked_together(
    orders: Iterable[NewOrder], settings: ServiceSettings, drones: Sequence[Registration], now: datetime
) -> Iterator[NewOrder | Unacceptable]:
    """`checked`'s result or error for each order. Orders that differ only in `UNCHECKED` fields are checked once."""
    known: dict[bytes, str | Unacceptable | None] = {}
    for new in orders:
        try:
            _check_times(new, now)
        except Unacceptable as problem:
            yield problem
            continue
        # What is not set has its default, and so is the same for all that set the same.
        key = to_json({name: getattr(new, name) for name in sorted(new.model_fields_set - UNCHECKED)})
        if key not in known:
            try:
                known[key] = _checked(new, settings, drones)
            except Unacceptable as problem:
                known[key] = problem
        checked = known[key]
        yield checked if isinstance(checked, Unacceptable) else _with_workspace(new, checked)


def _with_workspace(new: NewOrder, workspace: str | None) -> NewOrder:
    return new if workspace is None else new.model_copy(update={"workspace": workspace})


def _checked(new: NewOrder, settings: ServiceSettings, drones: Sequence[Registration]) -> str | None:
    """Check all fields but `UNCHECKED`. Answers the normalised workspace, if there is one. Raises `Unacceptable`."""
    _refuse_unavailable(new)
    _check_webhook(new, settings)
    if new.kind is OrderKind.REVERT:
        raise Unacceptable("kind", "a revert is asked for at the order that it takes back: POST /orders/{id}/revert.")
    if new.kind is OrderKind.DELIVER:
        raise Unacceptable("kind", "a delivery is asked for at the order whose work it is: POST /orders/{id}/deliver.")
    if new.kind is OrderKind.COMPACT:
        raise Unacceptable("kind", "a session is compacted at the session itself: POST /sessions/{id}/compact.")
    _check_result(new)
    _check_rules(new, drones)
    _check_permission(new, drones)
    if new.queue not in settings.queues:
        known = ", ".join(settings.queues)
        raise Unacceptable(
            "queue",
            f"there is no queue {new.queue!r}{did_you_mean(new.queue, settings.queues)}; "
            f"declared are {known} (MCC_QUEUES adds others).",
        )
    if drones:
        _check_model(new.model, drones)
    workspace = None if new.workspace is None else _workspace(new.workspace, settings, drones)
    _check_ref(new)
    if new.deliver is not None:
        _check_delivery(new.deliver, workspace, settings)
    if workspace is not None and not is_git_address(workspace):
        _refuse_own(workspace, settings.private_places())
    for place, name in (("agent", new.agent), ("verify.agent", new.verify.agent if new.verify else None)):
        if drones and name is not None and not (workspace and _may_bring(workspace, name)):
            _check_known("agent", name, (agent for drone in drones for agent in drone.agents), place)
    return workspace


def roots_of(settings: ServiceSettings, drones: Iterable[Registration]) -> tuple[str, ...]:
    """The directories under which a workspace may be: the service's, those added to its family, and the drones'."""
    found = dict.fromkeys(map(str, (*settings.workspace_roots, *AddedRoots(settings.data_dir)())))
    for drone in drones:
        found |= dict.fromkeys(os.path.normpath(root) for root in drone.workspace_roots)
    return tuple(found)


def _workspace(workspace: str, settings: ServiceSettings, drones: Sequence[Registration]) -> str:
    """The workspace, normalised: an allowed git address, or a directory under an allowed root."""
    if not is_git_address(workspace):
        return workspace_under(workspace, roots_of(settings, drones))
    try:
        address = git_address(workspace)
    except AddressRefused as error:
        raise Unacceptable("workspace", str(error)) from error
    if settings.workspaces.remote(address) is None:
        known = ", ".join(repository.address for repository in settings.workspaces.git) or "none"
        raise Unacceptable(
            "workspace",
            f"{address.text} is no git address that orders may name ({known} is allowed); the operator adds it to "
            "mcc.toml: [[workspaces.git]] with address = …",
        )
    return address.text


def _check_delivery(wish: Deliver, workspace: str | None, settings: ServiceSettings) -> None:
    """Before the work is done, what would be refused after it."""
    if workspace is None or not is_git_address(workspace):
        raise Unacceptable(
            "deliver",
            "work is delivered to the git address that it began with; name one as workspace, or leave it out.",
        )
    address = git_address(workspace)
    known = forge_of(settings.forges, address)
    if known is None:
        raise Unacceptable("deliver", unknown_forge(settings.forges, address))
    name, forge, _ = known
    if wish.branch is not None and (why := forge.why_not_pushed(wish.branch, name)):
        raise Unacceptable("deliver.branch", why)


def _check_ref(new: NewOrder) -> None:
    if new.ref is None:
        return
    if new.workspace is None or not is_git_address(new.workspace):
        raise Unacceptable(
            "ref", "a ref says what is checked out of a git address; name one as workspace, or leave it out."
        )
    if ".." in new.ref or new.ref.endswith((".", "/", ".lock")) or "//" in new.ref:
        raise Unacceptable("ref", f"{new.ref!r} cannot be a branch, tag or commit.")


def workspace_under(workspace: str, roots: Sequence[str]) -> str:
    """The normalised path, if it is under one of `roots`. Raises `Unacceptable`.

    Paths are compared by components, so that /work/app-evil is not under /work/app.
    """
    if not workspace.startswith("/"):
        raise Unacceptable("workspace", "name the directory by its absolute path, beginning with /.")
    path = PurePosixPath(os.path.normpath(workspace))
    if not any(path.is_relative_to(root) for root in roots):
        allowed = f"allowed are {', '.join(roots)}" if roots else "none is allowed yet"
        raise Unacceptable(
            "workspace",
            f"{path} is not under an allowed directory; {allowed}. Add one with mcc up --workspace or "
            "MCC_WORKSPACE_ROOTS (or DRONE_WORKSPACE_ROOTS where the drone runs, or workspace_roots in mcc.toml).",
        )
    return str(path)


def _lies_in(path: str, directory: Path) -> bool:
    """Whether `path` is `directory` or below it, following symlinks; False if either is moved away meanwhile."""
    try:
        there, real = directory.stat(), Path(os.path.realpath(path))
        return any(os.path.samestat(there, above.stat()) for above in (real, *real.parents) if above.exists())
    except (OSError, ValueError):
        return False


def _refuse_own(workspace: str, private: Iterable[Path]) -> None:
    # Symlinks may change later, and other machines are not visible here: the drone checks again what it opens.
    for place in private:
        if _lies_in(workspace, place):
            raise Unacceptable(
                "workspace",
                f"{workspace} lies inside MCC's own data, configuration or secrets ({place}), which no agent may see; "
                "name a directory outside of it, or let MCC keep its data elsewhere (--data-dir, MCC_DATA_DIR).",
            )


def _may_bring(workspace: str, agent: str) -> bool:
    """Whether the workspace may define an agent of this name. True if the workspace is not visible from here."""
    return not os.path.isdir(workspace) or os.path.isfile(os.path.join(workspace, WORKSPACE_DIRECTORY, f"{agent}.md"))


def _check_webhook(new: NewOrder, settings: ServiceSettings) -> None:
    if new.webhook_url is not None:
        if "webhooks" in settings.doors.off:
            raise Unacceptable("webhook_url", "this service has no webhooks: [doors] in its mcc.toml has them off.")
        try:
            WebhookForm(settings.webhooks).checked(new.webhook_url)
        except AddressRefused as error:
            raise Unacceptable("webhook_url", str(error)) from error


def _refuse_unavailable(new: NewOrder) -> None:
    for name in CHAT_ONLY if new.kind is OrderKind.GENERATE else ():
        if getattr(new, name) not in (None, ()):
            raise Unacceptable(
                name, f"{name} is about the answer of a chat; a document has the rules of its blueprint."
            )


def _check_times(new: NewOrder, now: datetime) -> None:
    if new.expires_at is None:
        return
    if new.expires_at <= now:
        raise Unacceptable("expires_at", "this time has passed; name a later one.")
    if new.not_before is not None and new.not_before >= new.expires_at:
        raise Unacceptable("not_before", "the order would expire before it may begin; name an earlier time.")


def _check_result(new: NewOrder) -> None:
    if new.result_schema is not None:
        try:
            checked_schema(resolved(new.result_schema))
        except SchemaError as error:
            place = f"result_schema.{error.place}" if error.place else "result_schema"
            raise Unacceptable(place, _with_full_stop(error.sentence)) from error


_RESULT_IS_REPORT = " Without result_schema the result is a report; say result_schema for another shape."


def _check_rules(new: NewOrder, drones: Iterable[Registration]) -> None:
    """Check the rules against `result_schema`, or without one against the result that the agent's file defines."""
    if sum(len(rule.cel) for rule in new.rules) > RULE_CHARACTERS:
        raise Unacceptable("rules", f"these are more than {RULE_CHARACTERS:,} characters of CEL; shorten them.")
    tools = {*chain(*TOOL_GROUPS.values()), *(tool.name for drone in drones for tool in drone.tools)}
    result = _result_of_agent(new, drones) if new.result_schema is None else new.result_schema
    for index, rule in enumerate(new.rules):
        try:
            check_declared(rule, result, tools)
        except ExpressionError as error:
            hint = _RESULT_IS_REPORT if result == REPORT_NAME and new.result_schema is None else ""
            raise Unacceptable(f"rules[{index}].cel", f"{_with_full_stop(str(error))}{hint}") from error


def _check_permission(new: NewOrder, drones: Iterable[Registration]) -> None:
    if characters(new.permission) > CHARACTERS:
        raise Unacceptable("permission", f"these are more than {CHARACTERS:,} characters of CEL; shorten them.")
    for problem in problems(new.permission, [tool.name for drone in drones for tool in drone.tools]):
        raise Unacceptable(f"permission.{problem.where}", _with_full_stop(problem.sentence))


def _result_of_agent(new: NewOrder, drones: Iterable[Registration]) -> object:
    """The result that the agent's file defines; None when no drone knows the agent, or drones differ."""
    if new.workspace is not None and _may_bring(new.workspace, new.agent):
        return None
    sheets = [offer.agent for drone in drones for offer in drone.agents if offer.name == new.agent]
    results = [sheet.definition.result if sheet else None for sheet in sheets]
    if None in sheets or not results or any(offer != results[0] for offer in results):
        return None
    return REPORT_NAME if results[0] is None else results[0]


def _with_full_stop(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def _check_known(what: str, name: str, known: Iterable[Capability], place: str) -> None:
    names = {one.name for one in known}
    if names and name not in names:
        listed = ", ".join(sorted(names)[:20])
        hint = did_you_mean(name, names)
        raise Unacceptable(place, f"there is no {what} {name!r}{hint}; the drones here have {listed}.")


def _check_model(model: str | None, drones: Sequence[Registration]) -> None:
    """Refuse an unknown alias. Of `provider/model` only the provider is checked, which alone knows its models."""
    if model is None or model == INHERIT:
        return
    known = [candidate for drone in drones for candidate in drone.models]
    owner, slash, rest = model.partition("/")
    if slash and (provider(owner) or any(candidate.name.partition("/")[0] == owner for candidate in known)):
        return
    if slash and (meant := close_matches(owner, [candidate.name for candidate in PROVIDERS], n=1)):
        raise Unacceptable("model", f"there is no provider {owner!r}: did you mean {meant[0]}/{rest}?")
    _check_known("model", model, known, "model")
