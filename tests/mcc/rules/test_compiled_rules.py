"""Compiling rules: which expressions are refused, with which position and sentence."""

import subprocess
import sys

import pytest

from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError
from mcc.rules.rule import compiled


def refusal(cel: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compiled(Rule(cel=cel))
    return caught.value


@pytest.mark.parametrize(
    ("cel", "column", "said"),
    [
        ("result.n ==", 12, "ends where more was expected"),
        ("result.n = 1", 10, "write == to compare"),
        ("result.a and result.b", 10, "write && for and"),
        ("result.a or result.b", 10, "write || for or"),
        ("task == 'open", 9, "closed with the same quote"),
        ("size(task) > 0)", 15, "')' is not expected here"),
        ("{'k': 1}.q == 1", 1, "there is no key 'q'; there is: k"),
        ("resul.n == 1", 1, "'resul' is not known here; did you mean 'result'?"),
        ("metadata.n == 1", 1, "there is: children, receipts, result, task, usage"),
        ("result.all(f, g)", 15, "'g' is not known here"),
        ("task.contians('x')", 1, "did you mean 'contains'?"),
        ("len(task) > 1", 1, "did you mean 'size'?"),
        ("size(task, 1) > 1", 1, "gives size 2 values, and it takes 1"),
        ("result.all(f)", 1, "all is written list.all(x, condition of x)"),
        ("result.all(f.x, true)", 1, "all is written"),
        ("has(task)", 1, "such as has(result.path)"),
        ('1 < "x"', 1, "compares int with string"),
        ('task == "a" || size(task) == "1"', 16, "compares int with string"),
        ("result.all(f, 1)", 15, "`1` is int, and bool is needed here"),
        ("!size(task)", 2, "is int, and bool is needed here"),
        ("task.contains(1)", 15, "string is needed here"),
        ('"a".b == 1', 1, "is string, and map is needed here"),
        ("1 / 0 == 1", 1, "divides by zero"),
        ("9223372036854775807 + 1 > 0", 1, "beyond 64 bits"),
        ("9223372036854775808 > 0", 1, "does not fit into 64 bits"),
        ("1" + "0" * 2_000 + " > 0", 1, "does not fit into 64 bits"),
        ('task.matches("(")', 1, "RE2 syntax"),
        ('task.matches("(?=x)")', 1, "RE2 syntax"),
        ('task.matches("((a{100}){100}){100}")', 1, "RE2 syntax"),
        ('task.matches("a.{900}c")', 1, "too large"),
        (f'task.matches("{"a" * 501}")', 1, "at most 500"),
        ("task == '\\ud83d'", 9, "which is no character"),
        ("task == '\\q'", 9, "has the escape \\q, which CEL does not know"),
        ("task == '\\x4'", 9, "without its 2 digits"),
        ("b'\\u00ff' == b'a'", 1, "names a character with \\u in bytes"),
        ("result.all(for, true)", 12, "'for' is a word that CEL keeps for itself"),
        ("result.in == 1", 8, "'in' is not expected here"),
        ("`task` == 'x'", 1, "only a key after a dot may stand in backquotes"),
        ("task.`size`() == 1", 1, "there is no function '`size`'"),
        ("size(task) == 1 # a", 17, "'#' is not expected here"),
        ("-(5u) == result.n", 3, "`5u` is uint, and int or double is needed here"),
        ("-5u == result.n", 2, "is uint, and int or double is needed here"),
        ("size(task) + 1u == 3", 1, "calculates with int and uint, which never fits"),
        ("size(task) - task.size() == true", 1, "compares int with bool, which never fits"),
        ("task.contains('a') + 1 == 2", 1, "calculates with bool and int, which never fits"),
        ("timestamp(result.at) > 5", 1, "compares timestamp with int, which never fits"),
        ("timestamp('2020-13-01T00:00:00Z') > timestamp(result.at)", 1, "no calendar has it"),
        ("duration('1 day') > duration(result.d)", 1, "write it like 1h30m, 90s or 1.5s"),
        ("duration(5) > duration(result.d)", 10, "`5` is int, and string or duration is needed here"),
        ("duration(result.d).getMonth() == 1", 1, "is duration, and timestamp is needed here"),
        ("uint(-1) == result.n", 1, "which is no such number"),
        ("int(1e99) == result.n", 1, "which is no such number"),
        ("bool('yes') == result.yes", 1, "write true or false"),
        ("{1: 2, 1u: 3}[result.n] == 2", 1, "`1u` is a key that stands there twice"),
        ("{1.5: 2}[result.n] == 2", 2, "is double, and bool or int or uint or string is needed here"),
        ("task in 'abc'", 9, "is string, and list or map or null_type is needed here"),
        ("dyn == result.n", 1, "'dyn' is not known here"),
        (".task == 'x'", 1, "not available here"),
        ("Message{a: 1} == 1", 1, "not available here"),
        ('task == "a" &&\n  size(task) = 1', 14, "write == to compare"),
    ],
)
def test_a_mistake_is_refused_with_its_position(cel: str, column: int, said: str) -> None:
    error = refusal(cel)
    assert said in error.sentence
    assert (error.line, error.column) == (cel.count("\n") + 1, column)
    assert error.offset == (cel.rfind("\n") + column)


@pytest.mark.parametrize("cel", ["size(task)", '"true"', "null", "[true]", "task.size()"])
def test_a_rule_that_cannot_be_true_or_false_is_refused(cel: str) -> None:
    assert "must be true or false" in refusal(cel).sentence


@pytest.mark.parametrize(
    ("cel", "said"),
    [
        ("(" * 5_000 + "true" + ")" * 4_900, "at most 4,000 can be checked"),
        ("(" * 3_990, "ends where more was expected"),
        ("!" * 3_990 + "true", "nested deeper than 60 levels"),
        ("[" * 1_900 + "]" * 1_900 + " == 1", "nested deeper than 60 levels"),
        ("1" + "+1" * 1_900 + " > 0", "nested deeper than 60 levels"),
        ("task" + ".a" * 1_900, "nested deeper than 60 levels"),
        ("true ? true : " * 280 + "true", "nested deeper than 60 levels"),
        ("result.all(a, result.all(b, result.all(c, result.all(d, true))))", "stands within 3 others"),
        (" && ".join(["result.all(a, true)"] * 21), "more than 20 of all, exists"),
        ("   ", "is empty"),
    ],
)
def test_what_is_too_large_to_be_bounded_is_refused(cel: str, said: str) -> None:
    assert said in refusal(cel).sentence


@pytest.mark.parametrize(
    "cel",
    [
        "(" * 1_990 + "true" + ")" * 1_990,
        " && ".join(["true"] * 500),
        "result.a == null",
        "result.a == 1.5 && result.a < 3",
        "task == '\x00'",
        "type(result.a) == string",
        "task // a remark\n == 'x'",
        "0x1F == 31 && 2u == 2 && .5 < 1e3",
        "r'\\d' == '\\\\d' && '''a\nb''' != \"\\u00e9\"",
    ],
)
def test_what_is_fine_is_not_refused(cel: str) -> None:
    assert compiled(Rule(cel=cel)).cel == cel


def test_the_names_that_may_be_used_are_an_argument() -> None:
    assert compiled(Rule(cel="value > props.least"), {"value", "props"}).expression.names == ("props", "value")
    assert "'value' is not known" in refusal("value > 1").sentence


def test_a_rule_is_compiled_once() -> None:
    rule = Rule(cel="size(result.steps) > 3", message="Say more.")
    assert compiled(rule).expression is compiled(rule).expression
    assert compiled(rule).message == "Say more."


@pytest.mark.parametrize("statement", ["import mcc.rules.rule", "import mcc.rules.schema", "import mcc.cli.main"])
def test_neither_grammar_nor_library_is_loaded_before_a_rule_or_a_schema_is_read(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted({{'celpy', 'lark', 'jsonschema'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_compiling_and_checking_print_nothing_and_leave_the_interpreter_as_it_is() -> None:
    code = """
import sys
from mcc.contracts.order import Rule
from mcc.rules.rule import check
from mcc.rules.errors import ExpressionError
from mcc.rules.rule import compiled
for cel in ("result.x / 0 == 1", 'result.matches(task)', "a b", "result.all(x, x > 'a')", "1 +"):
    try:
        check([compiled(Rule(cel=cel))], {"result": [1], "task": "("})
    except ExpressionError:
        pass
assert sys.getrecursionlimit() == 1000
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
