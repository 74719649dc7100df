"""CEL values that JSON lacks: bytes, timestamps, durations, unsigned integers, map keys other than strings."""

from typing import Any

import pytest

from mcc.contracts.order import Rule
from mcc.rules.rule import check, compiled

RESULT: dict[str, Any] = {
    "n": 3,
    "d": 1.5,
    "yes": True,
    "none": None,
    "text": "Grüße",
    "half": "\ud83d",
    "list": [1, 2, 3],
    "at": "2024-02-29T23:30:00.25Z",
    "zone": "Europe/Berlin",
    "huge": 10**400,
    "nan": float("nan"),
    "inf": float("inf"),
}


def said(cel: str) -> tuple[str, ...]:
    return check([compiled(Rule(cel=cel))], {"result": RESULT}).errors


@pytest.mark.parametrize(
    "cel",
    [
        "result.nan != result.nan && !(result.nan < 1) && !(result.nan >= 1) && result.nan != 1",
        "result.inf + 1 > 0 && result.d / 0 == result.inf && -result.d / 0 < 0 && result.n / 0.0 > 1e308",
        "result.n == 3u && dyn(result.n) < 4u && {result.n: 'x'}[3.0] == 'x' && 3u in {3: 1} && 3u in result.list",
        "{true: 1, 1: 2}[result.yes] == 1 && {true: 1, 1: 2}[result.n - 2] == 2 && !(true in {1: result.n})",
        "result.list[1.0] == 2 && result.list[dyn(2u)] == 3 && !(null in {'a': result.n})",
        "{'a.b': {'in': result.n}}.`a.b`['in'] == 3 && {'if': 2}.if == result.n - 1",
        "[{1: 'a', true: 'b'}].all(m, m.all(k, k == 1 || k == true)) && {true: result.n}.map(k, k) == [true]",
        "'''a\n'b''' + result.text == 'a\\n\\'bGrüße' && '\\?\\x41\\101\\U0001F62C' == '?AA😬'",
        "bytes(result.text) == b'Gr\\xc3\\xbc\\303\\237e' && size(bytes(result.text)) == 7",
        "b'a' > bytes(result.text) && bytes(result.text) >= b'Gr' && size(b'') == 0",
        "string(bytes(result.text) + b'!') == 'Grüße!' && type(bytes(result.text)) == bytes",
        "timestamp(result.at) > timestamp('2024-02-29T23:30:00+00:00') && timestamp(result.at) < timestamp(1709249401)",
        "string(timestamp(result.at)) == '2024-02-29T23:30:00.25Z' && int(timestamp(result.at)) == 1709249400",
        "timestamp(result.at).getDate() == 29 && timestamp(result.at).getDate(result.zone) == 1",
        "timestamp(result.at).getMonth(result.zone) == 2 && timestamp(result.at).getHours('-09:30') == 14",
        "timestamp(result.at).getDayOfYear() == 59 && timestamp(result.at).getDayOfWeek() == 4",
        "timestamp(result.at).getMilliseconds() == 250 && timestamp(result.at).getFullYear() == 2024",
        "timestamp(result.at) - timestamp('2024-02-28T23:30:00Z') == duration('24h0.25s')",
        "timestamp(result.at) + duration('-250ms') == timestamp('2024-03-01T00:30:00+01:00')",
        "duration(string(result.n) + 'h30m') == duration('12600s')",
        "string(duration('-1h') - duration(string(result.n - 2) + 'ms')) == '-3600.001s'",
        "duration('1h1m1.5s').getMinutes() == 60 + result.n - 2 && duration('-90s').getMinutes() == -1",
        "duration('1.25s').getMilliseconds() == 250 && duration('0') < duration('1ns')",
        "duration(result.none == null ? '1us' : '') == duration('1µs')",
        "uint(result.n) * 2u == 6u && type(uint(result.n)) == uint",
        "type(result.n) != uint && int(uint(result.d)) == 1",
        "bool('t') == result.yes && string(2.0) == '2' && string(result.d) == '1.5' && double('1e3') == 1000.0",
        "type(result.none) == null_type && type(type(result)) == type && type(dyn(result.n)) == int",
        "(true || 1 / 0 == 1) && result.n == 3",
        "-9223372036854775808 < result.n && 18446744073709551615u > uint(result.n)",
    ],
)
def test_it_is_as_the_specification_says(cel: str) -> None:
    assert said(cel) == ()


@pytest.mark.parametrize(
    ("cel", "why"),
    [
        ("result.n + 1u == 4", "adds a number and a number without sign; kinds with and without sign do not mix"),
        ("-dyn(uint(result.n)) == result.n", "takes the negative of a number without sign"),
        ("uint(result.n) - 4u == 0u", "negative or beyond 64 bits"),
        ("{result.n: 1, 3: 2} == {}", "`3` is a key that stands there twice"),
        ("{1: 2}[result.n] == 2", "there is no such key"),
        ("{1: 2}[result.none] == 2", "uses null as a key"),
        ("result.list[result.huge] == 1", "there is no [a number beyond 64 bits]"),
        ("result.list[result.d] == 1", "there is no [1.5]"),
        ("timestamp(result.text) > timestamp(0)", "as a time; write it like 2009-02-13T23:31:30Z"),
        ("timestamp(result.huge) > timestamp(0)", "before the year 1 or after the year 9999"),
        ("timestamp(result.at) + duration('292y') > timestamp(0)", "write it like 1h30m"),
        ("timestamp(result.at).getHours(result.text) == 1", "which is not known; write one like Europe/Berlin"),
        ("timestamp(result.at).getHours('../' + result.zone) == 1", "which is not known"),
        ("timestamp(result.at).getHours('Europe' + '') == result.n", "which is not known"),
        ("timestamp('0001-01-01T00:00:00Z').getHours('-0' + string(result.n) + ':00') == 1", "in that time zone"),
        ("timestamp(result.at).getHours('+9' + string(result.n) + ':00') == 1", "up to 23 hours"),
        ("duration(result.text) > duration('1s')", "write it like 1h30m, 90s or 1.5s"),
        ("duration('9999999999' + 'h') > duration(result.at)", "more than 292 years"),
        ("duration(string(result.n) + 's').getHours('UTC') == 0", "which only a time has"),
        ("bytes(result.half) == b'a'", "half a character"),
        ("string(b'\\xff' + bytes(result.text)) == ''", "bytes that are not UTF-8"),
        ("uint(result.n - 4) == 0u", "which is no such number"),
        ("int(result.nan) == 0", "which is no such number"),
        ("double(result.text) == 1.0", "makes double of 'Grüße"),
        ("double(result.huge) == 1.0", "which is no such number"),
        ("int(result.text + '1') == 1", "which is no such number"),
        ("bool(result.text)", "write true or false"),
    ],
)
def test_what_has_no_value_is_a_sentence(cel: str, why: str) -> None:
    try:
        (sentence,) = said(cel)
    except ValueError as error:
        sentence = str(error)
    assert why in sentence


def test_a_written_number_is_read_whole_and_never_rounded() -> None:
    assert said("9223372036854775807 == result.n || 9223372036854775807 - 9223372036854775806 == 1") == ()
