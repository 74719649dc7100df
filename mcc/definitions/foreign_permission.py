"""Conversion of other systems' permission (words for tools, patterns of shell commands) to permission rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcc.permission.commands import commands_in
from mcc.permission.saving import literal

WORDS = ("allow", "ask", "deny")
_RANK: Mapping[str, int] = {word: rank for rank, word in enumerate(WORDS)}


@dataclass(slots=True)
class ForeignPermission:
    """The permission collected from one file. `allowed` and `denied` are patterns of shell commands; `whole`: the shell
    is also named without a pattern."""

    words: dict[str, Any] = field(default_factory=dict)
    allowed: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    whole: bool = False

    def permission(self) -> dict[str, Any]:
        """The converted permission. If a denying pattern cannot be converted, all commands after it are denied."""
        only = bool(self.allowed) and not self.whole
        if not (only or self.denied):
            return self.words
        rules, _ = rules_of([(pattern, "deny") for pattern in self.denied])
        if only:
            more, _ = rules_of([(pattern, "allow") for pattern in self.allowed])
            rules += [*more, {"then": "deny", "message": "The file of this agent names the commands that it may run."}]
        elif isinstance(after := self.words.get("run_shell"), list):
            rules += after
        return {**self.words, "run_shell": rules}


def condition_of(pattern: str) -> str | None:
    """A pattern such as `git push`, `git push:*`, `git push *` or `git push*` as a CEL condition on a simple command.

    "" for a pattern of all commands, None for one that cannot be converted.
    """
    text = pattern.strip()
    if text in ("", "*", ":*"):
        return ""
    rest = text.endswith("*")
    text = text.removesuffix("*")
    apart = text.endswith((" ", ":")) or not rest
    commands = commands_in(text.removesuffix(":").strip())
    if len(commands) != 1 or not (commands[0].plain and commands[0].whole and commands[0].argv):
        return None
    words = [literal(word) for word in commands[0].argv]
    if not rest:
        return f"argv == [{', '.join(words)}]"
    fixed = words if apart else words[:-1]
    conditions = [f"argv[{place}] == {word}" for place, word in enumerate(fixed)]
    if not apart:
        conditions.append(f"argv[{len(fixed)}].startsWith({words[-1]})")
    return " && ".join([f"size(argv) > {len(words) - 1}", *conditions] if len(words) > 1 else conditions)


def rules_of(patterns: Iterable[tuple[str, str]]) -> tuple[list[dict[str, str]], list[str]]:
    """Convert pairs of pattern and word, of which the first match counts. Answers rules, and patterns that are lost.

    A lost pattern that allows is skipped. A lost pattern that denies or asks does so for every command that no earlier
    rule matches.
    """
    rules: list[dict[str, str]] = []
    lost: list[str] = []
    for pattern, word in patterns:
        condition = condition_of(pattern)
        if condition is None:
            lost.append(pattern)
            # An allow that is lost makes stricter; a deny that is lost would make milder, so from here on it holds for
            # everything.
            if word != "allow":
                rules.append({"then": word})
                break
        elif condition:
            rules.append({"when": condition, "then": word})
        else:
            rules.append({"then": word})
            break
    return rules, lost


def strictest(words: Iterable[Any]) -> str:
    """The strictest of several words; "ask" where there is none."""
    return max((str(word) for word in words if word in WORDS), key=_RANK.__getitem__, default="ask")
