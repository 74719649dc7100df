"""Rules pass the conformance tests of the CEL specification; skipped when those could not be fetched."""

from collections.abc import Mapping

import pytest

from scripts.cel_suite import EXCEPTIONS, Verdict, core, missing, run

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"CEL's own suite: {missing()}")


@pytest.fixture(scope="module")
def verdicts() -> Mapping[str, Verdict]:
    found = dict[str, Verdict]()
    for test, verdict in run():
        assert test.name not in found or test.name not in core()
        found[test.name] = max(verdict, found.get(test.name, verdict))
    return found


def test_ninety_nine_of_a_hundred_tests_of_the_core_pass(verdicts: Mapping[str, Verdict]) -> None:
    assert len(core()) == 1_056
    assert core() <= verdicts.keys()
    assert sum(verdicts[name] is Verdict.PASSED for name in core()) >= 1_046


def test_what_does_not_pass_is_named_with_its_reason(verdicts: Mapping[str, Verdict]) -> None:
    assert {name for name in core() if verdicts[name] is not Verdict.PASSED} == EXCEPTIONS.keys()


def test_what_is_not_available_is_refused_when_it_is_declared(verdicts: Mapping[str, Verdict]) -> None:
    assert [name for name, verdict in verdicts.items() if verdict is Verdict.WRONG] == []
