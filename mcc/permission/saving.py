"""What is saved when a person lets an approval stand: the rule that such calls keep, shown before it is saved."""

import json
from collections.abc import Mapping, Sequence

from mcc.contracts.permission import SavedRule
from mcc.permission.commands import Command

LONGEST = 2_000
"""Characters of a condition; a longer one nobody would read, and so nothing is saved."""

_BY_NAME = frozenset(
    {"make", "pytest", "tox", "nox", "ruff", "mypy", "black", "eslint", "tsc", "jest", "vitest", "ctest"}
)
"""Programs that are let do whatever their arguments say: they build and test what is in the workspace."""

_BY_VERB = frozenset({"git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "poetry", "dotnet", "mvn", "gradle", "bazel"})
"""Programs of which the first argument says what they do."""

_WHOLE_TEXTS = frozenset({"path", "source", "target", "url", "query", "pattern", "ref", "name", "id"})
"""Arguments that are one thing, also where they have blanks."""


def saved(tool: str, arguments: Mapping[str, object], commands: Sequence[Command]) -> SavedRule | None:
    """The rule for calls like this one; `commands` are those simple commands of a shell's call that are asked for.

    None where no rule could be told that means this and not much more.
    """
    if commands:
        conditions: list[str | None] = [_like(command) for command in commands]
        joint = " || "
    else:
        conditions = [_same(name, value) for name, value in sorted(arguments.items()) if value is not None]
        joint = " && "
    known = list(dict.fromkeys(one for one in conditions if one is not None))
    when = joint.join(known)
    if None in conditions or len(when) > LONGEST:
        return None
    return SavedRule(key=tool, when=when or None)


def _like(command: Command) -> str:
    """Other commands of the same program, where it only builds and tests, or of the same verb; else this very one."""
    argv = command.argv
    name = argv[0] if argv else ""
    if name in _BY_NAME:
        return f"argv[0] == {_text(name)}"
    if name in _BY_VERB and len(argv) > 1 and not argv[1].startswith("-"):
        return f"argv[0] == {_text(name)} && size(argv) > 1 && argv[1] == {_text(argv[1])}"
    return f"argv == [{', '.join(map(_text, argv))}]"


def _same(name: str, value: object) -> str | None:
    """The same value; of a sentence only its first word."""
    if not name.isidentifier() or not name.isascii():
        return None
    if isinstance(value, str):
        first, blank, _ = value.partition(" ")
        if blank and first and name not in _WHOLE_TEXTS:
            return f"args.{name}.startsWith({_text(first + blank)})"
        return f"args.{name} == {_text(value)}"
    if isinstance(value, bool | int | float):
        return f"args.{name} == {json.dumps(value)}"
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return f"args.{name} == [{', '.join(map(_text, value))}]"
    return None


def _text(value: str) -> str:
    """A text as CEL writes it: JSON's escapes are CEL's, as far as JSON needs them."""
    return json.dumps(value, ensure_ascii=False)
