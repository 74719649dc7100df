"""Checks of rules against results: verdicts, sentences on false rules, and bounds of time and memory."""

import sys
import threading
from typing import Any

import celpy
import pytest
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError
from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError
from mcc.rules.rule import check, compiled


def said(cel: str, message: str = "", **context: Any) -> tuple[str, ...]:
    return check([compiled(Rule(cel=cel, message=message))], context).errors


RESULT: dict[str, Any] = {
    "text": "Grüße\nworld",
    "n": 3,
    "d": 1.5,
    "yes": True,
    "none": None,
    "list": [1, 2, 3],
    "findings": [{"title": "a", "path": "x"}, {"title": "b", "path": None}],
    "huge": 10**400,
    "nan": float("nan"),
    "inf": float("inf"),
    "odd key": 1,
}


@pytest.mark.parametrize(
    "cel",
    [
        "result.n == 3.0 && result.d > 1 && 2 > result.d && result.n != '3' && result.n != true",
        "result.n / 2 == 1 && -result.n / 2 == -1 && -7 % 3 == -1 && result.n * 2.5 == 7.5 && result.d - 1 == 0.5",
        "result.text.size() == 11 && size(result) == 11 && size(result.none) == 0",
        "result.text.startsWith('Gr') && result.text.endsWith('d') && result.text.contains('ü')",
        "result.text.matches('^Gr.ße$|(?i)WORLD') && matches(result.text, 'w[a-z]+')",
        "result['odd key'] == 1 && result.list[2] == 3 && 'n' in result && 2.0 in result.list && !(9 in result.list)",
        "result.list.all(x, x > 0) && result.list.exists(x, x == 2) && result.list.exists_one(x, x > 2)",
        "result.list.map(x, x * 2) == [2, 4, 6] && result.list.map(x, x > 1, -x) == [-2, -3]",
        "result.list.filter(x, x % 2 == 1) == [1, 3] && [1] + [2] == [1, 2] && 'a' + 'b' == 'ab'",
        "result.list.all(x, result.list.exists(y, y == x) && result.list.all(x, x < 4) && x < 4)",
        "result.findings.all(f, f.path == null || f.path == 'x') && result.findings.filter(f, has(f.path)).size() == 1",
        "result.none.all(x, false) && !result.none.exists(x, true) && !('a' in result.none) && result.none != 0",
        "!has(result.none) && !has(result.none.deeper) && !has(result.missing) && has(result.n)",
        "(result.n > 1 ? 'many' : 'one') == 'many' && {'a': 1}.a == 1 && {'a': [1]} == {'a': [1.0]}",
        "result.all(key, size(key) > 0) && type(result.n) == int && type(result.n) != type(result.d)",
        "int('7') == 7 && double(1) == 1.0 && string(1.5) == '1.5' && string(true) == 'true'",
        "result.huge > 1 && result.huge == result.huge && result.inf > result.huge",
        "true || result.missing && false || result.n.x",
        "!(false && result.missing) && !(result.missing && false) && (result.missing || true)",
        "result.findings.exists(f, f.nope == 1 || f.title == 'b') && !result.findings.all(f, f.title == 'a' && f.nope)",
        "'it\\'s' == \"it's\" && '\\u00fc' == 'ü' && r'\\n' != '\\n'",
    ],
)
def test_a_rule_passes_where_it_is_true(cel: str) -> None:
    assert said(cel, result=RESULT, task="t") == ()


@pytest.mark.parametrize(
    ("cel", "why"),
    [
        ("result.n > 5", "is not true."),
        ("result.n > 1 && result.n > 5", "is not true: `result.n > 5` is false."),
        ("result.n", "gives a number and must give true."),
        ("result.text", "gives a text and must give true."),
        ("result.txt == 'a'", "`result.txt`: there is no key 'txt'; did you mean 'text'?"),
        ("result.none.x == 1", "`result.none` is null and has no key 'x'"),
        ("result.n.x == 1", "`result.n` is a number and has no key 'x'"),
        ("result.list[3] == 1", "`result.list[3]`: there is no [3], the list has 3 items from [0] on"),
        ("result.list[-1] == 1", "there is no [-1]"),
        ("result.list['a'] == 1", "looks up a text in a list"),
        ("result.text > 1", "`result.text > 1` compares a text with a number"),
        ("result.none < 1", "compares null with a number"),
        ("result.yes > 0", "compares a truth value with a number"),
        ("result.text + 1 == 2", "`result.text + 1` adds a text and a number"),
        ("result.n && true", "`result.n` is a number, not true or false"),
        ("!result.none", "`result.none` is null, not true or false"),
        ("result.text ? true : false", "`result.text` is a text, not true or false"),
        ("result.n.all(x, true)", "`result.n` is a number, not a list"),
        ("result.list.all(x, x)", "`x` is a number, not true or false"),
        ("result.findings.all(f, f.nope)", "`f.nope`: there is no key 'nope'"),
        ("'or' in result.text", "write text.contains(part)"),
        ("result.n.contains('a')", "calls contains with a number, and it takes a text"),
        (
            "size(result.n) == 1",
            "calls size with a number, and it takes a text or bytes or a list or an object or null",
        ),
        ("result.n / (result.n - 3) == 1", "divides by zero"),
        ("result.huge + 1 > 0", "beyond 64 bits"),
        ("result.d % 2 == 0", "not whole"),
        ("result.nan == result.nan", "is not true"),
        ("int(result.text) == 1", "which is no such number"),
        ("int(result.inf) == 1", "which is no such number"),
        ("string(result.huge) == ''", "makes string of a number"),
        ("task.matches(result.pattern)", "there is no key 'pattern'"),
        ("'a'.matches(task)", "RE2 syntax"),
        ("{task: 1} == {} || {result.d: 1} == {}", "keys are texts"),
    ],
)
def test_whatever_is_not_true_is_a_sentence(cel: str, why: str) -> None:
    (sentence,) = said(cel, "Do better.", result=RESULT, task="(")
    assert sentence.startswith("Do better. The rule `")
    assert why in sentence
    assert sentence[-1] in ".?"


def test_a_variable_that_is_not_there_is_null() -> None:
    assert said("usage == null && children.all(c, false)") == ()


def test_only_the_rules_that_do_not_hold_are_told_and_in_their_order() -> None:
    rules = [compiled(Rule(cel=cel, message=cel)) for cel in ("task == 'a'", "task == 'b'", "task == 'c'")]
    assert [one.split(" The")[0] for one in check(rules, {"task": "b"}).errors] == ["task == 'a'", "task == 'c'"]
    assert check([], {}).errors == ()


def test_a_rule_without_a_value_is_told_apart_from_one_that_is_false() -> None:
    rules = [compiled(Rule(cel=cel)) for cel in ("task == 'a'", "result.x == 1", "result", "result.n == 1")]
    checked = check(rules, {"task": "b", "result": {"n": 1}})
    assert [one.split("`")[1] for one in checked.errors] == ["task == 'a'", "result.x == 1", "result"]
    assert checked.faults == checked.errors[1:]


def nested(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("cel", "result"),
    [
        ("result.all(a, result.all(b, result.all(c, a + b + c >= 0)))", list(range(40)) * 2),
        ("result.all(a, result.all(b, a >= 0))", list(range(2_000))),
        ("result.map(a, result.map(b, [a, b])).size() > 0", list(range(2_000))),
        ("result.all(a, a in result)", list(range(2_000))),
        ("result.map(a, result + result).size() > 0", list(range(2_000))),
        ("result.all(a, [a, a, a] != result.map(b, b))", list(range(2_000))),
        ("result.all(a, a.matches('[ab]*a[ab]{900}c') || true)", ["ab" * 5_000] * 10),
        ("result.all(a, a.matches('(x+x+)+y') || true)", ["x" * 500_000] * 12),
        ("result.all(a, a.contains('aab') || true)", ["a" * 10_000] * 10_000),
        ("result.map(a, a + a + a + a).size() > 0", ["a" * 100_000] * 70),
        ("result.all(a, result.all(b, a == b))", ["a" * 60_000] * 100),
        ("result.all(a, duration(a) > duration('1s'))", ["1h2m3s4ms" * 8] * 2_000),
        ("result.all(a, result.all(b, timestamp(b) > timestamp(0)))", ["2024-01-01T00:00:00Z"] * 150),
        ("result.all(a, timestamp(0).getHours(a) >= 0)", ["Europe/Berlin"] * 1_000),
    ],
)
def test_what_would_take_too_long_is_a_sentence(cel: str, result: Any) -> None:
    (sentence,) = said(cel, result=result)
    assert "takes more steps than one check may" in sentence or "characters" in sentence


def test_steps_are_shared_by_the_rules_of_a_check() -> None:
    heavy = "result.all(a, result.all(b, a < {}))"
    rules = [compiled(Rule(cel=heavy.format(1_000 + number))) for number in range(12)]
    assert check(rules[:1], {"result": list(range(100))}).errors == ()
    assert "more steps" in check(rules, {"result": list(range(100))}).errors[-1]


def test_findings_against_receipts_fit_into_the_steps() -> None:
    cel = "result.all(f, f.path == null || receipts.exists(r, r.tool == 'read_file' && r.ok && r.path == f.path))"
    receipts = [{"tool": "read_file", "ok": True, "path": f"{number}"} for number in range(1_000)]
    assert said(cel, result=[{"path": "999"}] * 20, receipts=receipts) == ()


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (nested(300), "nested deeper than 100 levels"),
        (nested(100_000), "nested deeper than 100 levels"),
        ([1] * 5_000_000, "more than 100,000 values"),
        (["x" * 5_000_000] * 2, "more than 8,000,000 characters"),
        ({1: 2}, "key of an object is not a text"),
        ({"a": {1, 2}}, "of the Python type set is not JSON"),
    ],
    ids=["deep", "deeper", "many", "long", "keys", "foreign"],
)
def test_what_cannot_be_looked_at_refuses_the_result(result: Any, why: str) -> None:
    (sentence,) = said("size(result) > 0", result=result)
    assert why in sentence


def test_a_hundred_levels_can_be_compared() -> None:
    assert said("result == result && [result] != result", result=nested(98)) == ()


def test_nul_and_lone_surrogates_are_texts_like_others() -> None:
    strange = "a\x00b\ud800c"
    assert said("size(result) == 5 && result == task && result.contains('b')", result=strange, task=strange) == ()
    assert said("result.matches('b.*c$')", result=strange) == ()


def test_threads_do_not_disturb_each_other() -> None:
    rule = compiled(Rule(cel="result.all(x, result.exists(y, y == x)) && size(result) == usage"))
    found: list[tuple[str, ...]] = []

    def work(size: int) -> None:
        found.extend(check([rule], {"result": list(range(size)), "usage": size}).errors for _ in range(20))

    threads = [threading.Thread(target=work, args=(size,)) for size in range(1, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [()] * 160


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
some_rules = st.sampled_from(
    [
        "result == task",
        "result < task",
        "result.a.b[0] == task",
        "result[0] == task && result['a'] == 1",
        "result.all(x, x == task || x.y > 1)",
        "result.exists_one(x, x in task)",
        "result.map(x, task.map(y, x + y)).size() > 2",
        "result.filter(x, x.matches(task)) == []",
        "result + task == task - result || result * task > result / task",
        "-result % task == 0 && !task",
        "task ? result : has(result.x)",
        "int(result) == double(task) || string(result) == 'x' || type(result) == type(task)",
        "[result, task, {'k': result}] == [task]",
        "result",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(some_rules, min_size=1, max_size=3), json_values, json_values)
def test_checking_never_raises_and_says_at_most_one_sentence_for_each_rule(
    cels: list[str], result: Any, task: Any
) -> None:
    sentences = check([compiled(Rule(cel=cel)) for cel in cels], {"result": result, "task": task}).errors
    assert len(sentences) <= len(cels)
    assert all(isinstance(one, str) and one for one in sentences)


def joined(signs: list[str], part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(part, st.sampled_from(signs), part).map(lambda of: f"({of[0]} {of[1]} {of[2]})")


numbers = st.recursive(
    st.sampled_from(["result", "1", "-2", "3", "size(task)", "size([result, 1])"]),
    lambda part: joined(["+", "-", "*", "/", "%"], part),
    max_leaves=4,
)
texts = st.sampled_from(["task", "'a'", "'ab'", "task + 'b'"])
truths = st.recursive(
    joined(["==", "!=", "<", "<=", ">", ">="], numbers)
    | joined(["==", "!=", "<", ">="], texts)
    | st.tuples(texts, st.sampled_from(["contains", "startsWith", "matches"]), texts).map(
        lambda of: f"({of[0]}).{of[1]}({of[2]})"
    ),
    lambda part: st.one_of(
        joined(["&&", "||", "=="], part),
        part.map(lambda of: f"!({of})"),
        st.tuples(part, part, part).map(lambda of: f"({of[0]} ? {of[1]} : {of[2]})"),
        st.tuples(numbers, st.sampled_from(["all", "exists", "exists_one"]), part).map(
            lambda of: f"[1, {of[0]}, 2].{of[1]}(x, x > 1 && {of[2]})"
        ),
        st.tuples(numbers, part).map(lambda of: f"(size([1, {of[0]}].filter(x, x > 0 || {of[1]}).map(x, x * 2)) > 1)"),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def reference() -> celpy.Environment:
    """cel-python's own evaluation. One environment for all tests, because each one changes the recursion limit."""
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    sys.setrecursionlimit(limit)
    return environment


@settings(max_examples=150, deadline=None)
@given(text=truths, result=st.integers(-5, 5), task=st.sampled_from(["a", "ab", ""]))
def test_what_the_reference_finds_true_or_false_is_so_here(
    reference: celpy.Environment, text: str, result: int, task: str
) -> None:
    program = reference.program(reference.compile(text))
    try:
        expected = program.evaluate({"result": json_to_cel(result), "task": json_to_cel(task)})
        rule = compiled(Rule(cel=text))
    except (CELEvalError, ExpressionError):
        # A constant division by zero is refused here when the rule is compiled.
        return
    assert (not check([rule], {"result": result, "task": task}).errors) is bool(expected)
