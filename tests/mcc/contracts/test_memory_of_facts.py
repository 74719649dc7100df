"""The memory that facts take; every running turn holds hundreds of them."""

import tracemalloc
from collections.abc import Callable

from mcc.contracts.model_facts import ModelStarted
from mcc.contracts.shape import adopted, lean_copy, unchecked
from mcc.contracts.usage import Usage

STARTED = {"round": 1, "try": 1, "model": "fake", "reserved_tokens": 5}


def made() -> ModelStarted:
    return unchecked(
        ModelStarted,
        round=1,
        attempt=1,
        model="fake",
        reserved_tokens=5,
        reserved_output_tokens=0,
        reserved_usd=None,
    )


def bytes_of_each(make: Callable[[], object], count: int = 500) -> float:
    kept: list[object] = [None] * count
    tracemalloc.start()
    try:
        for place in range(count):
            kept[place] = make()
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()


def test_an_unchecked_fact_says_what_a_checked_one_says() -> None:
    checked = ModelStarted.model_validate(STARTED)
    for fact in (made(), lean_copy(checked), adopted(ModelStarted, {**checked.__dict__})):
        assert fact == checked
        assert fact.model_dump_json(by_alias=True) == checked.model_dump_json(by_alias=True)
        assert fact.model_copy(update={"model": "other"}).model == "other"


def test_a_fact_that_was_not_checked_has_no_dictionary_however_many_were_checked_before() -> None:
    for _ in range(100):
        checked = ModelStarted.model_validate(STARTED)
    assert bytes_of_each(made) < 200
    assert bytes_of_each(lambda: lean_copy(checked)) < 200


def test_adding_usages_up_leaves_them_as_small_as_they_were() -> None:
    one = Usage(model_calls=1).plus(Usage(input_tokens=3, cost_usd=None))
    assert one == Usage(model_calls=1, input_tokens=3, cost_usd=None)
    assert bytes_of_each(lambda: one.plus(one)) < 200
