"""Blueprints in the store: found by name and by digest, parsed once, never altered."""

import pytest

from mcc.documents.blueprint import Blueprint
from mcc.store.database.errors import UnknownBlueprint
from mcc.store.store import open_store
from tests.conformance.store.course import BLUEPRINT, OTHER, begun
from tests.conformance.store.scene import Scene


def named(name: str) -> Blueprint:
    return Blueprint.parse(BLUEPRINT.text.replace('"blueprint":"course"', f'"blueprint":"{name}"'))


def test_a_name_finds_the_blueprint_uploaded_last(scene: Scene) -> None:
    blueprints = scene.store.blueprints
    assert blueprints.find("course") is None and blueprints.list() == ()
    blueprints.keep(BLUEPRINT)
    scene.clock.advance(1)
    blueprints.keep(OTHER)
    assert blueprints.find("course") == OTHER
    scene.clock.advance(1)
    blueprints.keep(BLUEPRINT)
    blueprints.keep(named("atlas"))
    assert blueprints.find("course") == BLUEPRINT
    assert [one.name for one in blueprints.list()] == ["atlas", "course"]


def test_digits_of_a_digest_find_exactly_that_content(scene: Scene) -> None:
    scene.store.blueprints.keep(BLUEPRINT)
    scene.store.blueprints.keep(OTHER)
    for one in (BLUEPRINT, OTHER):
        assert scene.store.blueprints.find("course", one.digest[7:19]) == one
    assert scene.store.blueprints.find("course", "0" * 12) is None
    assert scene.store.blueprints.find("atlas", BLUEPRINT.digest[7:19]) is None
    assert scene.store.blueprints.find("course", "%") is None


def test_a_blueprint_that_only_documents_use_is_found_by_its_digits_and_not_by_its_name(scene: Scene) -> None:
    begun(scene)
    assert scene.store.blueprints.find("course") is None
    assert scene.store.blueprints.find("course", BLUEPRINT.digest[7:19]) == BLUEPRINT
    scene.store.blueprints.keep(BLUEPRINT)
    assert scene.store.blueprints.find("course") == BLUEPRINT


def test_another_process_parses_a_stored_blueprint_once(scene: Scene) -> None:
    scene.store.blueprints.keep(BLUEPRINT)
    store = open_store(scene.store.database.url.render_as_string(hide_password=False), clock=scene.clock)
    try:
        first = store.blueprints.get(BLUEPRINT.digest)
        assert first.text == BLUEPRINT.text and store.blueprints.get(BLUEPRINT.digest) is first
        with pytest.raises(UnknownBlueprint, match="no blueprint with the digest"):
            store.blueprints.get("sha256:" + "0" * 64)
    finally:
        store.close()
