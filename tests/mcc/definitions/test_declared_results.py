"""Results and rules in agent files: errors have the line in the file and the place within the value."""

import pytest

from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import DefinitionError

FILE = """---
name: review
result:
  type: object
  properties:
    verdict:
      enum: [merge, change]
    report: {$ref: report}
rules:
  - cel: size(result.verdict) > 0
  - message: Say what you read.
    cel: >-
      result.verdict == "merge"
      || size(receipts) > 0
---
You review changes.
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("size(result.verdict) > 0", "size(result.verdict > 0", 10, "rules[0].cel: the expression ends where more"),
        ("size(result.verdict) > 0", "size(resul.verdict) > 0", 10, "column 6 of the expression"),
        ("size(result.verdict) > 0", "size(result.verdikt) > 0", 10, "has no key 'verdikt'; did you mean 'verdict'?"),
        ('result.verdict == "merge"', 'result.verdict == "merg"', 12, "is never 'merg'; did you mean 'merge'?"),
        (
            "size(result.verdict) > 0",
            'size(task) > "x"',
            10,
            'rules[0].cel: `size(task) > "x"` compares int with string',
        ),
        ("|| size(receipts)", "|| len(receipts)", 12, "rules[1].cel: there is no function 'len'; did you mean 'size'?"),
        ("type: object", "type: objekt", 4, "result: type: 'objekt' is not a type; did you mean 'object'?"),
        ("enum: [merge, change]", "enum: merge", 7, "result: properties.verdict.enum: 'merge' is not of type 'array'"),
        ("{$ref: report}", "{$ref: reprot}", 8, "leads out of this schema, and nothing is fetched"),
        ("{$ref: report}", "{pattern: '(?=a)'}", 8, "result: properties.report.pattern: this uses '(?=a)'"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_agent(FILE.replace(old, new, 1), "review.md")
    assert caught.value.line == line
    assert said in caught.value.sentence


@pytest.mark.parametrize("result", ["report", "text", "{$ref: report}", "{type: array, items: {$ref: report}}"])
def test_shipped_results_are_named_or_referred_to(result: str) -> None:
    assert parse_agent(f"---\nname: a\nresult: {result}\n---\nx", "a.md").result is not None


def test_a_file_with_a_schema_and_rules_of_its_own_is_read() -> None:
    agent = parse_agent(FILE, "review.md")
    assert [rule.message for rule in agent.rules] == ["", "Say what you read."]


def test_a_file_may_not_hold_more_rules_than_an_order() -> None:
    rules = "".join(f'  - cel: "1 == {number}"\n' for number in range(51))
    with pytest.raises(DefinitionError, match="at most 50 items, not 51"):
        parse_agent(f"---\nname: a\nrules:\n{rules}---\nGo.", "a.md")
