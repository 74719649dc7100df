"""The rules in the how-to page do what the page says."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcc.contracts.order import Rule
from mcc.contracts.usage import Usage
from mcc.definitions.rights import TOOL_GROUPS, expanded
from mcc.rules.reads import READS, Passage, Reads
from mcc.rules.report import resolved
from mcc.rules.rule import check, check_declared, compiled
from mcc.rules.schema import checked_schema

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-rules.md"
BLOCK = re.compile(r"^```yaml\n(- cel:.*?)^```", re.MULTILINE | re.DOTALL)


def receipt(tool: str, path: str | None = None, *, ok: bool = True) -> dict[str, Any]:
    arguments = {} if path is None else {"path": path}
    outcome = "ok" if ok else "error"
    return {"call_id": tool, "tool": tool, "arguments": arguments, "ok": ok, "outcome": outcome, "path": path}


def child(status: str) -> dict[str, Any]:
    return {"record_id": "1", "agent": "explore", "title": "", "status": status, "result": None, "text": "x"}


READ = Reads([Passage("a.c", 40, ("    while (*p++)",))])
GOOD: dict[str, Any] = {
    "result": {
        "status": "completed",
        "summary": "The parser reads past its buffer when a line is empty. Risk: high.",
        "findings": [
            {"title": "Reads too far", "severity": "high", "path": "a.c", "line": 40, "evidence": "while (*p++)"},
            {"title": "No tests", "severity": None},
        ],
        "artifacts": [{"name": "fix", "kind": "diff", "content": "--- a.c\n+++ a.c\n"}],
    },
    "task": "Review the parser and hand in a diff.",
    "receipts": [receipt("read_file", "a.c"), receipt("edit_file", "a.c"), receipt("run_shell")],
    "children": [child("completed")],
    "usage": Usage(input_tokens=10_000, output_tokens=500, cost_usd=0.1).model_dump(),
}
EMPTY: dict[str, Any] = {"result": {"status": "completed", "summary": "x" * 40 + "Risk: none"}, "task": "Look."}
"""A report with only its required properties, after a run without tool calls."""

SPOILED: list[tuple[tuple[str | int, ...], Any]] = [
    (("result", "findings", 0, "line"), 41),
    (("result", "findings", 0, "evidence"), "see above"),
    (("result",), {"status": "blocked", "summary": "No rights."}),
    (("children",), [child("completed"), child("limit_reached")]),
    (("result", "summary"), "All is well."),
    (("result", "summary"), "Fine."),
    (("receipts",), [receipt("run_shell"), receipt("edit_file", "a.c")]),
    (("usage", "cost_usd"), 0.6),
    (("result", "findings", 1), GOOD["result"]["findings"][0]),
    (("result", "artifacts"), None),
]
"""For each rule of the page, in order, a change of the good context that breaks the rule: path and new value."""


def documented() -> list[Rule]:
    return [Rule(**rule) for block in BLOCK.findall(PAGE.read_text("utf-8")) for rule in yaml.safe_load(block)]


def context(values: dict[str, Any]) -> dict[str, Any]:
    made = {"receipts": [], "children": [], "usage": Usage().model_dump(), READS: READ, **copy.deepcopy(values)}
    schema = checked_schema(resolved("report"))
    assert schema.errors(made["result"]) == ()
    return {**made, "result": schema.with_unset(made["result"])}


def spoiled(number: int) -> dict[str, Any]:
    (*way, last), value = SPOILED[number]
    made = copy.deepcopy(GOOD)
    there: Any = made
    for step in way:
        there = there[step]
    there[last] = value
    if number == 2:
        made["receipts"] = []
    return made


def test_the_page_shows_ten_rules() -> None:
    assert len(documented()) == len(SPOILED) == 10


@pytest.mark.parametrize("number", range(10))
def test_a_documented_rule_accepts_a_good_result_and_one_with_nothing_in_it(number: int) -> None:
    rule = compiled(documented()[number])
    assert check([rule], context(GOOD)).errors == ()
    assert check([rule], context(EMPTY)).errors == ()


@pytest.mark.parametrize("number", range(10))
def test_a_documented_rule_refuses_what_it_is_for(number: int) -> None:
    rule = documented()[number]
    (said,) = check([compiled(rule)], context(spoiled(number))).errors
    assert said.startswith(rule.message)
    assert "is not true" in said or "Not so: result.findings[0]: " in said


@pytest.mark.parametrize("number", range(10))
def test_a_documented_rule_may_be_declared(number: int) -> None:
    check_declared(documented()[number], "report", expanded(TOOL_GROUPS))
