"""The page on blueprints explains every key that a file may have, and no other one."""

import pytest

from mcc.contracts import blueprints as model
from mcc.contracts.shape import Closed
from scripts.reference import blueprints as page


@pytest.mark.parametrize(
    ("found", "explained"),
    [
        (model.BlueprintSpec, page.OF_BLUEPRINT),
        (model.Component, page.OF_COMPONENT),
        (model.NodeAgent, page.OF_AGENT),
        (model.AnyField, page.OF_ALL_FIELDS),
        (model.BlueprintRule, page.OF_RULES),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_key_is_explained_and_no_other(found: type[Closed], explained: dict[str, str]) -> None:
    assert set(explained) == {field.alias or name for name, field in found.model_fields.items()}


def test_every_kind_of_field_is_explained_with_its_own_keys() -> None:
    of_all = {*model.AnyField.model_fields, "type"}
    own = {name: set(found.model_fields) - of_all for name, found in page.kinds().items()}
    assert {name: set(explained) for name, (_, explained) in page.OF_KINDS.items()} == own
