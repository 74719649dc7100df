"""A rule held against what is known where it is declared: the schema of the result, the tools, what evidence holds."""

import functools
import json
from collections.abc import Iterable, Mapping

from mcc.contracts.journal import Outcome
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.rules.faults import Frame
from mcc.rules.kinds import Kinds, Null
from mcc.rules.report import REPORT, resolved
from mcc.rules.rule import KEPT, read_rule
from mcc.rules.schema import checked_schema
from mcc.rules.shape import JSON_VALUE, Shape, of_items, of_keys, text
from mcc.rules.tokens import wrong

_WHOLE: Kinds = frozenset({int})
_ENDED = frozenset(RecordStatus) - {RecordStatus.RUNNING, RecordStatus.WAITING}


def check_declared(rule: Rule, result: object, tools: Iterable[str]) -> None:
    """Refuse a rule that names what cannot be there, or compares what never fits. Raises `RuleError`, `SchemaError`.

    `result` is what an agent file or an order says of its result: a schema, the name of a shipped one, or None when
    nobody knows here what it will be. `tools` are the tools that are known; one of another name may still exist, unless
    its name looks like a slip.

    For the moment of declaring alone: an order that was accepted is held to its rules as they were accepted.
    """
    _check(rule.cel, None if result is None else json.dumps(result, default=dict), frozenset(tools))


@functools.lru_cache(maxsize=KEPT)
def _check(cel: str, result: str | None, tools: frozenset[str]) -> None:
    made = read_rule(cel, shapes(_of_result(result), tools))
    if made.top.fixed and made.top.run(Frame([], 0)) is False:
        raise wrong("this is false, whatever is handed in", cel, 0)


def _of_result(result: str | None) -> Shape:
    if result is None:
        return JSON_VALUE
    schema = resolved(json.loads(result))
    return checked_schema(REPORT if schema is None else schema).shape


def shapes(result: Shape, tools: Iterable[str]) -> Mapping[str, Shape]:
    """What is known of each name that a rule may use."""
    receipt = {
        "call_id": text(),
        "tool": text(*tools, likely=True),
        "arguments": Shape(frozenset({dict, Null}), key=lambda name: JSON_VALUE),
        "ok": Shape(frozenset({bool})),
        "outcome": text(*(one.value for one in Outcome)),
        "path": text(nullable=True),
        "paths": of_items(text()),
    }
    child = {
        **{name: text() for name in ("record_id", "agent", "title", "text")},
        "status": text(*(one.value for one in _ENDED)),
        "result": JSON_VALUE,
        "error": text(nullable=True),
        "rounds": Shape(_WHOLE),
    }
    usage = {name: Shape(_WHOLE) for name in Usage.model_fields}
    return {
        "result": result,
        "task": text(),
        "receipts": of_items(of_keys(receipt)),
        "children": of_items(of_keys(child)),
        "usage": of_keys({**usage, "cost_usd": Shape(frozenset({int, float, Null}))}),
    }
