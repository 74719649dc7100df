"""Derived identifiers are UUIDs of version 5, and the same parts give the same id in any process; fresh ones differ."""

import uuid
from itertools import islice

import pytest

from mcc.contracts.ids import IDS_AT_ONCE, derived_id, fresh_id, fresh_ids, is_identifier

NAMESPACE = uuid.UUID("6f3c0c52-55b5-5f0e-9d0f-2b8f5f5f4d11")


@pytest.mark.parametrize("number", range(40))
def test_a_derived_id_is_the_uuid_of_its_name(number: int) -> None:
    made = derived_id("order", "café", number)
    assert made == str(uuid.uuid5(NAMESPACE, f"order/café/{number}"))
    assert is_identifier(made) and is_identifier(fresh_id())


def test_ids_made_one_after_the_other_have_their_time_and_random_bits_of_their_own() -> None:
    several = [uuid.UUID(made) for made in islice(fresh_ids(), 3 * IDS_AT_ONCE)]
    assert {made.version for made in several} == {7} == {uuid.UUID(fresh_id()).version}
    assert {made.variant for made in several} == {uuid.RFC_4122}
    assert len({made.int & ((1 << 62) - 1) for made in several}) == len(several)
