"""The rule to save when a person allows similar calls too; it is shown before it is saved."""

import json
from collections.abc import Mapping, Sequence

from mcc.contracts.permission import SavedRule
from mcc.permission.simple_commands import SimpleCommand

LONGEST = 2_000
"""Most characters of a condition; nobody would read a longer one, so nothing is saved then."""

_BY_NAME = frozenset(
    {"make", "pytest", "tox", "nox", "ruff", "mypy", "black", "eslint", "tsc", "jest", "vitest", "ctest"}
)
"""Programs for which the rule covers any arguments: they build and test what is in the workspace."""

_BY_VERB = frozenset({"git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "poetry", "dotnet", "mvn", "gradle", "bazel"})
"""Programs whose first argument is a verb, which the rule covers with any further arguments."""

_WHOLE_TEXTS = frozenset({"path", "source", "target", "url", "query", "pattern", "ref", "name", "id"})
"""Arguments that the rule compares as a whole, even where they contain blanks."""


def saved(tool: str, arguments: Mapping[str, object], commands: Sequence[SimpleCommand]) -> SavedRule | None:
    """The rule for calls like this one; `commands` are the simple commands of a shell call that need an approval.

    None where no rule covers such calls without covering much more.
    """
    if commands:
        conditions: list[str | None] = [_like(command) for command in commands]
        joint = " || "
    else:
        conditions = [_same(name, value) for name, value in sorted(arguments.items()) if value is not None]
        joint = " && "
    known = list(dict.fromkeys(condition for condition in conditions if condition is not None))
    when = joint.join(known)
    if None in conditions or len(when) > LONGEST:
        return None
    return SavedRule(key=tool, when=when or None)


def _like(command: SimpleCommand) -> str:
    """Covers all commands of a program that only builds and tests, or of the same verb; else only this command."""
    argv = command.argv
    name = argv[0] if argv else ""
    if name in _BY_NAME:
        return f"argv[0] == {literal(name)}"
    # Before the verb, options such as `git -c` change what the verb does, so such a command is saved word by word.
    if name in _BY_VERB and len(argv) > 1 and not argv[1].startswith("-"):
        return f"argv[0] == {literal(name)} && size(argv) > 1 && argv[1] == {literal(argv[1])}"
    return f"argv == [{', '.join(map(literal, argv))}]"


def _same(name: str, value: object) -> str | None:
    """Covers the same value, or for a text with blanks all with the same first word. None for other kinds of values."""
    if not name.isidentifier() or not name.isascii():
        return None
    if isinstance(value, str):
        first, blank, _ = value.partition(" ")
        if blank and first and name not in _WHOLE_TEXTS:
            # With the blank, so that `rm` does not cover `rmdir`.
            return f"args.{name}.startsWith({literal(first + blank)})"
        return f"args.{name} == {literal(value)}"
    if isinstance(value, bool | int | float):
        return f"args.{name} == {json.dumps(value)}"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return f"args.{name} == [{', '.join(map(literal, value))}]"
    return None


def literal(value: str) -> str:
    """A CEL string literal; every escape that JSON uses has the same meaning in CEL."""
    # People read the rule before they save it: escapes of other alphabets would hide what it says.
    return json.dumps(value, ensure_ascii=False)
