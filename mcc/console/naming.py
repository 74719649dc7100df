"""Short names for what a script declares, each where it counts: functions that do alike then read alike, and compress.

What is bound to a name does not change: a short one is none that its scope or one inside it needs for something else.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import product


class Name(str):
    """A word of the script that stands for itself, and is neither a property nor only a key."""

    __slots__ = ()


class Shorthand(Name):
    """One that is a key and its value at once: shorter, it is written twice."""

    __slots__ = ()


_LETTERS = "etrsoanilcdumphfgbwyvkxSTEAMPNRCFOLDIjqzUBHGWVYKXJQZ"
"""The most frequent in scripts first: names of these add least to what is compressed."""
_PAIRS = tuple("".join(letters) for letters in product(_LETTERS, repeat=2))

_COST_OF_A_KEY = 2
"""So often a name has to stand alone for each time that it is a key as well."""

_ENDS = frozenset((",", ";", ")", "]", "}", "\n"))
"""Where an expression ends that is no longer in brackets."""
_HEADS = frozenset(("if", "while", "switch"))
_DECLARES = frozenset(("let", "class", "function"))
_OPERATORS = frozenset("+-/%")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class Unreadable(ValueError):
    """The script is none of those that can be read here; the message says why."""


@dataclass(eq=False, slots=True)
class _Scope:
    """Where names count. `names`: those that it declares. `needed`: what is declared further out and used inside."""

    above: "_Scope | None"
    names: dict[str, "_Binding"] = field(default_factory=dict)
    needed: set["_Binding"] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Binding:
    short: str
    weight: int = 0


def renamed(tokens: Sequence[str], kept: Set[str]) -> str:
    """The script of these tokens, with short names for what it declares but for those that are `kept`.

    Templates are tokens up to each `${` and from each `}` on. Raises `Unreadable`.
    """
    return "".join(_renamed(tokens, kept)[0])


def renamed_apart(first: Sequence[str], second: Sequence[str], kept: Set[str], file: str) -> tuple[str, str]:
    """Two scripts, as `renamed`: the second takes what the first declares from it by an import from this `file`, under
    the same short names. Raises `Unreadable`."""
    end = len(first)
    written, reading = _renamed([*first, "\n", *second], kept)
    declared = {reading.bound[index] for index in range(end) if index in reading.bound}
    declared &= set(reading.scopes[0].names.values())
    shared = {binding.short for index, binding in reading.bound.items() if index > end and binding in declared}
    names = ",".join(sorted(shared))
    exported, imported = (f"\nexport{{{names}}};", f'import{{{names}}}from"./{file}";') if shared else ("", "")
    return "".join(written[:end]) + exported, imported + "".join(written[end + 1 :])


def _renamed(tokens: Sequence[str], kept: Set[str]) -> "tuple[Sequence[str], _Scopes]":
    reading = _Scopes(tokens, kept)
    reading.read()
    reading.resolve()
    taken = kept | {str(token) for token in tokens if isinstance(token, Name)}
    letters = [each for each in _LETTERS if each not in taken]
    pairs = [each for each in _PAIRS if each not in taken]
    for scope in reading.scopes:
        bindings = (
            sorted(scope.names.values(), key=lambda binding: -binding.weight)
            if scope.above is None
            else scope.names.values()
        )
        used = {binding.short for binding in scope.needed}
        # What all share is met less often in any one function than what is its own.
        free = (each for each in (pairs if scope.above is None else (*letters, *pairs)) if each not in used)
        for binding in bindings:
            if binding.weight >= 0 and len(binding.short) > 1:
                binding.short = next(free)
    written = list(tokens)
    for index, binding in reading.bound.items():
        if binding.short != tokens[index]:
            key = f"{tokens[index]}:" if isinstance(tokens[index], Shorthand) else ""
            written[index] = key + binding.short
    return written, reading


class _Scopes:
    """`scopes`: all of the script, the outer before the inner. `bound`: by index, what the names stand for."""

    def __init__(self, tokens: Sequence[str], kept: Set[str]) -> None:
        self._tokens = tokens
        self._kept = kept
        self._ends = _matches(tokens)
        self._of: list[tuple[int, _Scope]] = []
        self.scopes = [_Scope(None)]
        self._bodies = set[int]()
        self.bound: dict[int, _Binding] = {}

    def read(self) -> None:
        """Find the scopes, and what each declares."""
        self._walk(0, len(self._tokens), self.scopes[0])

    def resolve(self) -> None:
        """Find what each name stands for; what nothing declares keeps its name."""
        for index, scope in self._of:
            token = self._tokens[index]
            if token in self._kept:
                continue
            passed = list[_Scope]()
            at: _Scope | None = scope
            while at is not None and token not in at.names:
                passed.append(at)
                at = at.above
            if at is None:
                continue
            binding = self.bound[index] = at.names[token]
            binding.weight += -_COST_OF_A_KEY if isinstance(token, Shorthand) else 1
            for inner in passed:
                inner.needed.add(binding)

    def _walk(self, at: int, end: int, scope: _Scope) -> None:
        while at < end:
            token = self._tokens[at]
            if token in _DECLARES:
                self._declare_all(at + 2 if self._tokens[at + 1] == " " else at + 1, scope)
            if (begun := self._begun(at, scope)) is not None:
                stop, inner = begun
                self._walk(at + 1, stop, inner)
                at = stop
                continue
            if isinstance(token, Name):
                self._of.append((at, scope))
            at += 1

    def _begun(self, at: int, scope: _Scope) -> tuple[int, _Scope] | None:
        """The scope that begins with this token, and where it ends. None: none does."""
        token, before = self._tokens[at], self._tokens[at - 1] if at else ""
        if token == "{" and at not in self._bodies:
            return self._ends[at], self._inner(scope)
        if isinstance(token, Name) and self._is_arrow(at + 1):
            inner = self._inner(scope)
            self._declare(at, inner)
            self._of.append((at, inner))
            return self._body(at + 3), inner
        if token != "(":
            return None
        after = self._ends[at] + 1
        is_arrow = self._is_arrow(after)
        is_body = self._tokens[after : after + 1] == ["{"] and before not in _HEADS
        if not is_arrow and not is_body:
            if before == "for":
                raise Unreadable(f"The loop at token {at} has no {{ }} about what it does.")
            return None
        inner = self._inner(scope)
        if before == "for":
            return self._ends[after], inner
        self._declare_list(at, inner)
        return self._body(after + 2 if is_arrow else after), inner

    def _is_arrow(self, at: int) -> bool:
        return self._tokens[at : at + 2] == ["=", ">"]

    def _inner(self, scope: _Scope) -> _Scope:
        self.scopes.append(_Scope(scope))
        return self.scopes[-1]

    def _body(self, at: int) -> int:
        """Where the body of a function ends. It may not declare what its parameters do, so both are one scope."""
        if self._tokens[at] == "{":
            self._bodies.add(at)
            return self._ends[at]
        return self._end_of_expression(at)

    def _end_of_expression(self, at: int) -> int:
        while at < len(self._tokens) and self._tokens[at] not in _ENDS and not self._tokens[at].startswith("}"):
            # Where one part of a template ends, the next may begin.
            while at in self._ends:
                at = self._ends[at]
            at += 1
        if self._tokens[at : at + 1] == ["\n"] and self._tokens[at + 1] in _OPERATORS:
            raise Unreadable(f"The line after token {at} begins with an operator: let the one before end with it.")
        return at

    def _declare_all(self, at: int, scope: _Scope) -> None:
        """What a declaration declares, one after the other."""
        while True:
            at = self._declare(at, scope)
            if self._tokens[at : at + 1] == ["="]:
                at = self._end_of_expression(at + 1)
            if self._tokens[at : at + 1] != [","]:
                return
            at += 1

    def _declare(self, at: int, scope: _Scope) -> int:
        """What this name or pattern declares. The index of what follows it."""
        token = self._tokens[at]
        if token in ("{", "["):
            self._declare_list(at, scope)
            return self._ends[at] + 1
        if isinstance(token, Name):
            scope.names.setdefault(str(token), _Binding(str(token)))
        return at + 1

    def _declare_list(self, at: int, scope: _Scope) -> None:
        """What a pattern in brackets declares, or parameters."""
        end = self._ends[at]
        at += 1
        while at < end:
            if self._tokens[at + 1] == ":":
                at += 2
            at = self._declare(at, scope)
            if self._tokens[at] == "=":
                at = self._end_of_expression(at + 1)


def _matches(tokens: Sequence[str]) -> Mapping[int, int]:
    """Where each bracket ends, by where it opens; those in templates too."""
    opened = list[int]()
    ends: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token in _CLOSING or token.startswith("}"):
            if not opened:
                raise Unreadable(f"Nothing opens what token {index} closes.")
            ends[opened.pop()] = index
        if token in _OPENING or (token[:1] in ("`", "}") and token.endswith("${")):
            opened.append(index)
    if opened:
        raise Unreadable(f"Nothing closes what token {opened[-1]} opens.")
    return ends
