"""The tests of CEL's own specification, held against the expressions of rules (docs/decisions/14)."""

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mcc.rules.errors import MAX_STEPS, ExpressionError, Fault
from mcc.rules.expression import expression
from mcc.rules.kinds import ANYTHING, KINDS, Uint, map_key
from mcc.rules.times import duration, timestamp

VERSION = "0.6.1"
ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".venv" / f"cel-suite-{VERSION}.json"
_CORE = ROOT / "tests" / "mcc" / "rules" / "cel_core_tests.txt"

_DOTTED = "A variable has a dot in its name; here a variable is one word."
_UNCHECKED = "What is not known runs, and `||` forgives it; here it is refused when the rule is declared."
_QUALIFIED = "fields/qualified_identifier_resolution/"
EXCEPTIONS: Mapping[str, str] = {
    "basic/variables/unbound_is_runtime_error": _UNCHECKED,
    "basic/functions/unbound_is_runtime_error": _UNCHECKED,
    f"{_QUALIFIED}qualified_ident": _DOTTED,
    f"{_QUALIFIED}map_field_select": _DOTTED,
    f"{_QUALIFIED}qualified_identifier_resolution_unchecked": _DOTTED,
    f"{_QUALIFIED}ident_with_longest_prefix_check": _DOTTED,
    "namespace/qualified/self_eval_qualified_lookup": _DOTTED,
}
"""Tests of the core that do not pass, by name, and why that is so."""


class Verdict(StrEnum):
    PASSED = "passed"
    REFUSED = "refused"
    """Refused where it, or what it is about, is declared; the specification gives it a value."""
    WRONG = "wrong"
    """Another value, or a fault while it ran: a surprise."""


@dataclass(frozen=True, slots=True)
class SuiteTest:
    """`written` is the test as JSON, in protobuf's way of writing values."""

    name: str
    section: str
    written: Mapping[str, Any]


def missing() -> str | None:
    """Why the suite is not there; None when it is."""
    if KEPT.exists():
        return None
    reason = KEPT.with_suffix(".missing")
    return reason.read_text("utf-8").strip() if reason.exists() else "run: scripts/cel-suite"


def suite() -> list[SuiteTest]:
    """All tests that have something to evaluate, those of protobuf messages and of extensions too."""
    listed = json.loads(KEPT.read_text("utf-8"))
    return [
        SuiteTest(f"{one['section']}/{one['suite']}/{one['name']}", one["section"], one)
        for one in listed
        if not one.get("checkOnly")
    ]


def core() -> frozenset[str]:
    """The names of the tests that count: the standard language, without protobuf messages."""
    return frozenset(_CORE.read_text("utf-8").splitlines())


def verdict(test: SuiteTest) -> Verdict:
    """How the expressions of rules do on `test`, within the bounds of the product."""
    written = test.written
    fails = "evalError" in written
    if any("." in name for name in written.get("bindings", ())):
        return Verdict.PASSED if fails else Verdict.REFUSED
    try:
        context = {name: value(one["value"]) for name, one in written.get("bindings", {}).items()}
        made = expression(written["expr"], dict.fromkeys(context, ANYTHING))
    except ExpressionError:
        return Verdict.PASSED if fails else Verdict.REFUSED
    except _MessageError:
        return Verdict.REFUSED
    try:
        found = made.value(made.frame(context, MAX_STEPS))
    except Fault:
        return Verdict.PASSED if fails else Verdict.WRONG
    wanted = written.get("value") or written.get("typedResult", {}).get("result") or {"boolValue": True}
    return Verdict.PASSED if not fails and _is(found, wanted) else Verdict.WRONG


def _is(found: Any, wanted: Mapping[str, Any]) -> bool:
    try:
        return same(found, value(wanted))
    except _MessageError:
        return False


def value(written: Mapping[str, Any]) -> Any:
    """The value that protobuf's JSON means."""
    ((name, one),) = written.items()
    return _READ[name](one)


def _map(written: Mapping[str, Any]) -> dict[Any, Any]:
    return {map_key(value(entry["key"])): value(entry["value"]) for entry in written.get("entries", ())}


def _object(written: Mapping[str, Any]) -> Any:
    match written["@type"].rpartition(".")[2]:
        case "Timestamp":
            return timestamp(written["value"])
        case "Duration":
            return duration(written["value"])
    return _message(written)


class _MessageError(Exception):
    """The value is one that only protobuf has."""


def _message(written: object) -> Any:
    raise _MessageError


_READ: Mapping[str, Callable[[Any], Any]] = {
    "int64Value": int,
    "uint64Value": lambda one: Uint(int(one)),
    "doubleValue": float,
    "stringValue": str,
    "bytesValue": base64.b64decode,
    "boolValue": bool,
    "nullValue": lambda one: None,
    "listValue": lambda one: [value(item) for item in one.get("values", ())],
    "mapValue": _map,
    "typeValue": lambda one: KINDS[one] if one in KINDS else _message(one),
    "objectValue": _object,
    "enumValue": _message,
}


def same(found: Any, wanted: Any) -> bool:
    """Whether these are the same value of the same kind, and as the specification has it NaN where NaN is wanted."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, list):
        return len(found) == len(wanted) and all(same(a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(item, wanted[key]) for key, item in found.items())
    if isinstance(found, float) and math.isnan(found):
        return math.isnan(wanted)
    return bool(found == wanted)


def run() -> Iterator[tuple[SuiteTest, Verdict]]:
    return ((test, verdict(test)) for test in suite())
