"""Functions and macros of expressions: what each takes, what it gives, what it costs."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from mcc.rules.node import Node, Run, settled, truth
from mcc.rules.values import Fault, Frame, kind, word

MAX_PATTERN = 500
"""Characters of a regular expression."""
MAX_PROGRAM = 1_000
"""Instructions of a regular expression: `a{900}` has 900."""
READING = 400
"""Steps of reading a regular expression, paid also where it was kept: verdicts must not depend on what was."""

Act = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """`takes` says the kinds of its values (None = any; that before the dot is the first), `gives` that of its own."""

    name: str
    takes: tuple[str | None, ...]
    gives: str
    act: Act


def _size(frame: Frame, value: Any) -> int:
    """The size of null is 0: what was not set is empty."""
    if value is None:
        return 0
    if isinstance(value, str | list | dict):
        return len(value)
    raise Fault(f"takes the size of {word(value)}")


def _of_texts(name: str, act: Callable[[str, str], bool]) -> Act:
    def run(frame: Frame, text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise Fault(f"calls {name} of {word(text)} with {word(part)}; both must be texts")
        frame.spend(len(text) >> 8)
        return act(text, part)

    return run


def matches(frame: Frame, text: Any, pattern: Any) -> bool:
    """Whether RE2 finds `pattern` anywhere in `text`, where the pattern is not known before."""
    frame.spend(READING)
    return matches_known(frame, text, pattern)


def matches_known(frame: Frame, text: Any, pattern: Any) -> bool:
    """The same for a pattern that was read before: linear in the text, and in the size of the pattern's program."""
    if type(text) is not str or type(pattern) is not str:
        raise Fault(f"calls matches of {word(text)} with {word(pattern)}; both must be texts")
    found = searcher(pattern)
    frame.spend(20 + len(text) * found.programsize // 100)
    return found.search(text.encode("utf-8", "replace")) is not None


def searcher(pattern: str) -> Any:
    """The compiled RE2 expression, for UTF-8 bytes. Raises `Fault`."""
    if len(pattern) > MAX_PATTERN:
        raise Fault(f"uses a regular expression of {len(pattern):,} characters; at most {MAX_PATTERN} are allowed")
    return _searcher(pattern)


@functools.lru_cache(maxsize=256)
def _searcher(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        found = re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as error:
        why = error.args[0] if error.args else "it cannot be read"
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise Fault(f"uses {pattern[:80]!r} as a regular expression: {reason[:120]} (RE2 syntax)") from error
    if found.programsize > MAX_PROGRAM:
        raise Fault(f"uses {pattern[:80]!r} as a regular expression, which is too large; repeat less in it")
    return found


def _int(frame: Frame, value: Any) -> int:
    return _number(value, int, "int")  # type: ignore[no-any-return]


def _double(frame: Frame, value: Any) -> float:
    return _number(value, float, "double")  # type: ignore[no-any-return]


def _number(value: Any, made: Callable[[Any], Any], name: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Fault(f"makes {name} of {word(value)}")
    if isinstance(value, str) and len(value) > 400:
        raise Fault(f"makes {name} of a text of {len(value):,} characters")
    try:
        return made(value)
    except (ValueError, OverflowError) as error:
        raise Fault(f"makes {name} of {str(value)[:40]!r}, which is no such number") from error


def _string(frame: Frame, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and (isinstance(value, float) or value.bit_length() <= 64):
        return str(value)
    raise Fault(f"makes string of {word(value)}")


_TEXTS = ("string", "string")

METHODS = {
    one.name: one
    for one in (
        Function("contains", _TEXTS, "bool", _of_texts("contains", lambda text, part: part in text)),
        Function("startsWith", _TEXTS, "bool", _of_texts("startsWith", lambda text, part: text.startswith(part))),
        Function("endsWith", _TEXTS, "bool", _of_texts("endsWith", lambda text, part: text.endswith(part))),
        Function("matches", _TEXTS, "bool", matches),
        Function("size", (None,), "int", _size),
    )
}
"""Written `value.name(…)`."""

FUNCTIONS = {
    one.name: one
    for one in (
        METHODS["matches"],
        METHODS["size"],
        Function("int", (None,), "int", _int),
        Function("double", (None,), "double", _double),
        Function("string", (None,), "string", _string),
        Function("type", (None,), "type", lambda frame, value: kind(value)),
    )
}
"""Written `name(…)`."""


Build = Callable[[Node, int, Sequence[Node]], Run]
"""From the list, the slot of the variable and the expressions to what runs."""


@dataclass(frozen=True, slots=True)
class Macro:
    """`arguments` are the numbers of arguments, the variable among them; `gives` is the kind of the value."""

    name: str
    arguments: tuple[int, ...]
    gives: str
    build: Build

    @property
    def usage(self) -> str:
        return f"list.{self.name}(x, {'expression of x' if self.name == 'map' else 'condition of x'})"

    def tests(self, arguments: int) -> bool:
        """Whether the first expression is a condition."""
        return self.name != "map" or arguments == 3


def _items(owner: Node, slot: int, bodies: Sequence[Node]) -> Callable[[Frame], Iterator[Any]]:
    """Goes over the items of a list or the keys of an object, binding each; what was not set has none."""
    cost = 1 + sum(body.steps for body in bodies)

    def run(frame: Frame) -> Iterator[Any]:
        found = owner.run(frame)
        if found is None:
            return
        if type(found) is not list and type(found) is not dict:
            raise Fault.at(f"`{owner.text}` is {word(found)}, not a list")
        slots = frame.slots
        for item in found:
            frame.spend(cost)
            slots[slot] = item
            yield item

    return run


def _decided(decisive: bool) -> Build:
    def build(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
        items, body = _items(owner, slot, bodies), bodies[0]
        return lambda frame: settled((body for _ in items(frame)), decisive, frame)

    return build


def _exists_one(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: sum(truth(body, frame) for _ in items(frame)) == 1


def _filter(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: [item for item in items(frame) if truth(body, frame)]


def _map(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items = _items(owner, slot, bodies)
    if len(bodies) == 1:
        return lambda frame: [bodies[0].run(frame) for _ in items(frame)]
    return lambda frame: [bodies[1].run(frame) for _ in items(frame) if truth(bodies[0], frame)]


MACROS = {
    macro.name: macro
    for macro in (
        Macro("all", (2,), "bool", _decided(False)),
        Macro("exists", (2,), "bool", _decided(True)),
        Macro("exists_one", (2,), "bool", _exists_one),
        Macro("filter", (2,), "list", _filter),
        Macro("map", (2, 3), "list", _map),
    )
}
"""Written `list.name(x, …)`."""
