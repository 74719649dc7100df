"""Derived identifiers are UUIDs of version 5, and the same parts give the same id in any process."""

import uuid

import pytest

from mcc.contracts.ids import derived_id, fresh_id, is_identifier

NAMESPACE = uuid.UUID("6f3c0c52-55b5-5f0e-9d0f-2b8f5f5f4d11")


@pytest.mark.parametrize("number", range(40))
def test_a_derived_id_is_the_uuid_of_its_name(number: int) -> None:
    made = derived_id("order", "café", number)
    assert made == str(uuid.uuid5(NAMESPACE, f"order/café/{number}"))
    assert is_identifier(made) and is_identifier(fresh_id())
