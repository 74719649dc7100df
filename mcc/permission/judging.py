"""Judging of tool calls: the strictest decision of all layers on the strictest part of the call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcc.contracts.permission import Effects, LayerName, Mode, SavedRule, Why, Word
from mcc.permission.commands import commands_in
from mcc.permission.layers import SHELL, STEPS, STRICTNESS, Decision, Facts, Layer, fits
from mcc.permission.saving import saved
from mcc.permission.simple_commands import SimpleCommand
from mcc.rules.errors import Fault
from mcc.rules.kinds import JsonCopy, Partial

_ORDER: Sequence[LayerName] = ("operator", "order", "mode", "agent", "ancestor", "grant", "default")
"""Which layer is reported as the reason, among several with equally strict decisions."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call to judge. `effects` is the strongest effect that its tool may have; `profile` the sandbox profile of the
    program that it runs, "" where it runs none; `workspace` the path of its working directory, "" for none."""

    tool: str
    group: str = ""
    effects: Effects = "execute"
    arguments: Mapping[str, object] = field(default_factory=dict)
    agent: str = ""
    depth: int = 0
    mode: Mode = "develop"
    profile: str = ""
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on a call. `would_save` is the rule to save if a person allows such calls for longer, None where
    there is no fitting rule; `message` tells the model why the call does not run, and what to do instead."""

    word: Word
    why: Why
    would_save: SavedRule | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a call that is judged by itself: one simple command of a shell call, or all of another call."""

    values: Mapping[str, Any]
    command: SimpleCommand | None = None

    @property
    def plain(self) -> bool:
        return bool(self.values) and (self.command is None or self.command.plain)


def judge(request: PermissionRequest, layers: Sequence[Layer], grants: Sequence[SavedRule] = ()) -> Ruling:
    """The strictest decision of `layers`, in any order; where none decides, the default for the tool's effects.

    A grant turns an ask into an allow, but never a deny. Never raises. Takes milliseconds.
    """
    # Without a rule, nothing can differ between the parts, so the call is not taken apart.
    if not layers and (by_default := _by_effects(request.effects)).word == "allow":
        return Ruling("allow", by_default.why)
    parts, left = list(_parts(request)), [STEPS] * len(layers)
    judged = [_decide(request, part, layers, left, grants) for part in parts]
    place = max(range(len(parts)), key=lambda index: STRICTNESS[judged[index].word])
    decision, command = judged[place], parts[place].command
    if decision.word == "allow":
        return Ruling("allow", decision.why)
    if decision.word == "deny":
        return Ruling("deny", decision.why, message=_denied(request, decision.why, command))
    asking = [part for part, its in zip(parts, judged, strict=True) if its.word == "ask"]
    return Ruling("ask", decision.why, _would_save(request, asking), _needs_approval(request, decision.why, command))


def _parts(request: PermissionRequest) -> Iterator[_Part]:
    try:
        args = JsonCopy().of(request.arguments)
    except (Fault, RecursionError):
        # What cannot be copied as JSON has no values: conditions on it have none either, which denies and asks, and
        # never allows.
        yield _Part({})
        return
    values = {
        "args": args,
        "tool": request.tool,
        "group": request.group,
        "effects": request.effects,
        "agent": request.agent,
        "depth": request.depth,
        "mode": request.mode,
        "profile": request.profile,
        "workspace": request.workspace,
    }
    if request.tool != SHELL:
        yield _Part({**values, "argv": [], "parts": 0})
        return
    text = args.get("command")
    commands = commands_in(text) if isinstance(text, str) else (SimpleCommand((), False, False, "it is no text"),)
    # A text of blanks and comments runs nothing, and yet is a call: rules without a condition hold for it.
    for command in commands or (SimpleCommand(),):
        # A condition that reaches beyond the known words has no value, instead of taking them for the whole command.
        argv = list(command.argv) if command.whole else Partial(command.argv)
        yield _Part({**values, "argv": argv, "parts": len(commands)}, command)


def _decide(
    request: PermissionRequest, part: _Part, layers: Sequence[Layer], left: list[int], grants: Sequence[SavedRule]
) -> Decision:
    """The decision on one part; `left` has the remaining steps of each layer, and is updated."""
    # The steps are shared by all parts of a call, so that a command of many parts cannot buy more of them.
    decisions: list[Decision] = []
    for place, layer in enumerate(layers):
        facts = Facts(part.values, plain=part.plain, steps=left[place])
        if (decision := layer.decide(request.tool, request.group, facts)) is not None:
            decisions.append(decision)
        left[place] = facts.steps
    ranked = sorted(
        decisions,
        # The reason must not depend on the order in which the layers were given.
        key=lambda decision: (-STRICTNESS[decision.word], _ORDER.index(decision.why.layer), decision.why.key or ""),
    )
    strictest = ranked[0] if ranked else _by_effects(request.effects)
    if strictest.word == "ask" and (granted := _granted(request, part, grants)) is not None:
        return Decision("allow", Why(layer="grant", key=granted.key, when=granted.when))
    return strictest


def _by_effects(effects: Effects) -> Decision:
    return Decision("ask" if effects == "irreversible" else "allow", Why(layer="default"))


def _granted(request: PermissionRequest, part: _Part, grants: Sequence[SavedRule]) -> SavedRule | None:
    if not part.plain:
        return None
    return next((one for one in grants if _covers(one, request, part)), None)


def _would_save(request: PermissionRequest, asking: Sequence[_Part]) -> SavedRule | None:
    """The rule that would allow all asked parts of the call; None where there is none."""
    if not all(part.plain for part in asking):
        return None
    rule = saved(request.tool, request.arguments, [part.command for part in asking if part.command is not None])
    # The rule is tried on the very call before it is offered: one that would not cover it would be asked about again.
    return rule if rule is not None and all(_covers(rule, request, part) for part in asking) else None


def _covers(grant: SavedRule, request: PermissionRequest, part: _Part) -> bool:
    if not fits(grant.key, request.tool, request.group):
        return False
    return grant.when is None or Facts(part.values).holds(grant.when) is True


def _denied(request: PermissionRequest, why: Why, command: SimpleCommand | None) -> str:
    message = _sentence(why.message)
    return f"Denied{_because_of(command)}: {_rule(request, why)}.{message}{_unclear(command)} {INSTEAD}"


def _needs_approval(request: PermissionRequest, why: Why, command: SimpleCommand | None) -> str:
    message = _sentence(why.message)
    return (
        f"Denied{_because_of(command)}: a person would have to allow it, and nobody is asked in this order "
        f"({_rule(request, why)}).{message}{_unclear(command)} {INSTEAD}"
    )


def _sentence(message: str) -> str:
    """The message with a space before it, and a full stop that separates it from the text after it."""
    text = message.strip()
    return "" if not text else f" {text}" if text.endswith((".", "!", "?")) else f" {text}."


INSTEAD = "It did not run, and the same call again is answered the same: go another way, or say what could not be done."
_REMEDIES = {
    "reads its input": "give the commands after `-c` in single quotes, or one call each",
    "options that are not known": "leave these options away, or call the inner command by itself",
    "only a shell could expand": "write the text in single quotes, and pass values as words after it (`sh -c '…' _ X`)",
    "is not closed": "close every quote and bracket",
    "too often": "call the inner command by itself",
    "longer than": "put the text into a file and run the file",
    "more than": "make several calls",
    "alias": "write the command that the alias stands for",
    "no command of its own": "write the command of xargs, such as `xargs echo`",
    "may be empty": "put the variable into double quotes",
}
"""By a sign in the reason."""

_SHOWN = 200


def _because_of(command: SimpleCommand | None) -> str:
    words = " ".join(command.argv)[: _SHOWN + 1] if command is not None else ""
    return f" because of `{words if len(words) <= _SHOWN else f'{words[:_SHOWN]}…'}`" if words else ""


def _unclear(command: SimpleCommand | None) -> str:
    if command is None or (command.plain and command.whole):
        return ""
    if command.whole:
        return f" What it does is not plain, since {command.why}: write simple commands, one call each."
    what = "Its further words are" if command.argv else "The command that would run is"
    why = command.why or "a shell puts file names or other words in place of a pattern"
    return f" {what} not known before it runs, since {why}: {_remedy(why)}."


def _remedy(why: str) -> str:
    """How to write a command otherwise, of which a part was unknown for this reason."""
    return next((say for sign, say in _REMEDIES.items() if sign in why), "write the words themselves, one call each")


def _rule(request: PermissionRequest, why: Why) -> str:
    if why.layer == "default":
        return f"{request.tool} does what cannot be undone"
    where = _PLACES[why.layer]
    held = f" where `{' '.join(why.when.split())[:_SHOWN]}`" if why.when else ""
    return f"{where} says so of {why.key}{held}"


_PLACES: Mapping[LayerName, str] = {
    "operator": "the operator's permission",
    "mode": "the mode of this order",
    "agent": "the permission in your agent file",
    "ancestor": "the permission of an agent above you",
    "order": "the permission of this order",
    "grant": "an approval that stands",
    "default": "nobody",
}
