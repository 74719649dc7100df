"""Functions over text that an agent read: lines, quotes, spellings of paths, and sentences on what was not read."""

from typing import Any

import pytest

from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError
from mcc.rules.reads import READS, Passage, Reads
from mcc.rules.rule import check, check_declared, compiled

READ = Reads(
    (
        Passage("README.md", 1, ("# A garden", "", 'token = "hunter2"', "  grow(a,\tb)", "The end.")),
        Passage("src/a.py", 10, ("one", "two")),
        Passage("/home/me/garden/src/a.py", 12, ("three", "four")),
        Passage("src/a.py", 40, ("forty",)),
        Passage("src/b.py", 0, ("gone", "came")),
    ),
    ("/home/me/garden", "/srv/garden/"),
)


def told(cel: str, message: str = "", **context: Any) -> tuple[str, ...]:
    return check([compiled(Rule(cel=cel, message=message))], {READS: READ, **context}).errors


@pytest.mark.parametrize(
    "cel",
    [
        "same_path('./README.md', 'README.md')",
        "same_path('/home/me/garden/src/../README.md', 'README.md') && same_path('/srv/garden/a', '/home/me/garden/a')",
        "same_path('/home/me/garden', '.') && !same_path('/home/me/gardener/a', 'er/a')",
        "!same_path('/elsewhere/README.md', 'README.md') && !same_path(null, null)",
        "read_lines('README.md', 1) && read_lines('./README.md', 5) && !read_lines('README.md', 6)",
        "read_lines('/srv/garden/src/a.py', 13) && !read_lines('src/a.py', 9) && !read_lines('src/a.py', 14)",
        "!read_lines('README.md', 0) && !read_lines(null, 1) && !read_lines('README.md', null)",
        "!read_lines('README.md', 1.5) && !read_lines('README.md', 1.0 / 0.0) && read_lines('README.md', 1.0)",
        "!read_lines('src/b.py', 1) && quoted('src/b.py', 'gone came')",
        "quoted('README.md', 'grow(a, b)') && quoted('/srv/garden/README.md', 'The end')",
        "quoted('README.md', '`grow(a, b)`') && quoted('README.md', '4\\t  grow(a,\\tb)\\n5\\tThe end.')",
        "quoted('README.md', '3: token = \"hunt…\"') && quoted('README.md', '# A garden\\n...\\nThe end.')",
        "quoted('src/a.py', 'two\\nthree') && !quoted('src/a.py', 'four\\nforty')",
        "!quoted('README.md', 'The end. … # A garden') && !quoted('README.md', 'grow(a,b)')",
        "!quoted('README.md', '') && !quoted('README.md', ' …') && !quoted('README.md', null) && !quoted(null, 'a')",
        "!quoted('src/c.py', 'one')",
    ],
)
def test_what_was_read_decides(cel: str) -> None:
    assert told(cel) == ()


@pytest.mark.parametrize(
    ("cel", "said"),
    [
        ("read_lines('README.md', 77)", "line 77: README.md was read to line 5 only"),
        ("read_lines('src/a.py', 20)", "line 20: of src/a.py only lines 10-13 and 40-40 were read"),
        ("read_lines('lib/a.py', 1)", "you read nothing of lib/a.py; did you mean src/a.py?"),
        ("read_lines('README.md', null)", "no line is named"),
        ("quoted('README.md', 'The beginning.')", "the text “The beginning.” is not in what you read of README.md"),
        ("quoted('README.md', 'x' + '\\n' + 'y')", "the text “x y” is not in what you read of README.md"),
        ("quoted(null, 'x')", "no path is named"),
        ("quoted('README.md', '``')", "there is no text to look for"),
    ],
)
def test_a_refusal_says_what_was_read(cel: str, said: str) -> None:
    assert told(cel, "Quote.") == (f"Quote. Not so: {said}".rstrip("?") + ("?" if said.endswith("?") else "."),)


def test_every_item_that_is_wrong_is_named_and_nothing_else() -> None:
    findings = [
        {"path": "README.md", "line": 2},
        {"path": "README.md", "line": 77},
        {"path": "README.md", "line": None},
        {"path": "elsewhere", "line": 1},
    ]
    rule = "result.all(f, f.line == null || f.path == 'elsewhere' && task == 'y' || read_lines(f.path, f.line))"
    (said,) = told(rule, "Read it.", result=findings, task="x")
    assert said == (
        "Read it. Not so: result[1]: line 77: README.md was read to line 5 only; "
        "result[3]: you read nothing of elsewhere."
    )
    assert told("result.all(f, f.line != 77)", result=findings)[0].endswith("is not true: result[1]: this is not so.")


def test_what_is_wrong_with_many_items_is_told_in_short() -> None:
    (said,) = told("result.all(f, quoted('README.md', f))", "Quote.", result=["x" * 5_000] * 30)
    assert said.count("result[") == 10 and "And 20 more" in said and len(said) < 3_000


@pytest.mark.parametrize("cel", ["quoted('README.md')", "quoted(3, 'a')", "read_lines('a', 'b')", "same_path(1, 2)"])
def test_what_no_function_takes_is_refused_when_it_is_declared(cel: str) -> None:
    with pytest.raises(ExpressionError):
        check_declared(Rule(cel=cel), None, ())


def test_functions_over_reads_are_there_only_where_reads_are() -> None:
    with pytest.raises(ExpressionError, match="there is no function 'quoted'; there is"):
        compiled(Rule(cel="quoted('a', 'b')"), {"task"})
    with pytest.raises(ExpressionError, match="'nothing' is not known here; there is: children, receipts, result"):
        compiled(Rule(cel="nothing"))
    checked = check([compiled(Rule(cel="quoted('a', 'b')"))], {})
    assert "where nobody knows what was read" in checked.faults[0]


def test_reading_much_costs_steps_whoever_has_read_it_before() -> None:
    long = Reads([Passage("a", 1, ("word " * 200,) * 10_000)])
    rules = [compiled(Rule(cel=f"quoted('a', 'word') && {number} > 0")) for number in range(1, 10)]
    first, again = (check(rules, {READS: long}).errors for _ in range(2))
    assert first == again and "more steps" in first[-1] and 0 < len(first) < len(rules)


def test_an_argument_that_a_tool_has_not_is_null() -> None:
    receipts = [{"arguments": {"ref": "HEAD"}}, {"arguments": {"path": "a"}}, {"arguments": None}]
    assert told("receipts.exists(r, r.arguments.path == 'a')", receipts=receipts) == ()
    assert told("receipts.filter(r, r.arguments['path'] == null).size() == 1", receipts=receipts[:2]) == ()
    assert told("receipts.all(r, !has(r.arguments.deep) && !('deep' in r.arguments))", receipts=receipts[:2]) == ()
    assert "there is no key 'tool'" in told("receipts.all(r, r.tool == 'x')", receipts=receipts)[0]
