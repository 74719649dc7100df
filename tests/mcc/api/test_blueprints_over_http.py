"""Blueprints over HTTP: shipped ones, the operator's, and errors in a wrong one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.catalogue import Catalogue, UnlistedBlueprint
from mcc.documents.blueprint import Blueprint
from mcc.settings import ServiceSettings
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import is_problem
from tests.mcc.cli.test_blueprints import RIGHT, WRONG

BLUEPRINTS = "/api/v1/blueprints"
POND = Blueprint.parse(RIGHT)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceSettings:
    """Settings of an operator with two blueprint files, one of them invalid."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "mcc" / "blueprints"
    folder.mkdir(parents=True)
    (folder / "pond.yaml").write_text(RIGHT)
    (folder / "lake.yaml").write_text(WRONG)
    return ServiceSettings(data_dir=tmp_path / "data")


async def test_those_that_can_be_used_are_listed(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    answer = await api.get(BLUEPRINTS)
    check(document, answer, BLUEPRINTS)
    listed = {one["name"]: one for one in answer.json()["items"]}
    assert (listed["pond"]["digest"], listed["pond"]["origin"]) == (POND.digest, "operator")
    assert "lake" not in listed


@pytest.mark.parametrize("name", ["pond", f"pond:{POND.digest[7:19]}"])
async def test_one_is_shown_with_its_content_of_which_the_same_is_made(
    api: httpx.AsyncClient, document: dict[str, Any], name: str
) -> None:
    answer = await api.get(f"{BLUEPRINTS}/{name}")
    check(document, answer, f"{BLUEPRINTS}/{{name}}")
    assert Blueprint.load(answer.json()["content"]).digest == answer.json()["digest"] == POND.digest


@pytest.mark.parametrize("name", ["pnod", "pond:000000000000"])
async def test_one_that_is_not_there_is_not_found(api: httpx.AsyncClient, name: str) -> None:
    assert "pond" in is_problem(await api.get(f"{BLUEPRINTS}/{name}"), 404)


async def test_of_a_wrong_one_all_is_told_with_its_lines(api: httpx.AsyncClient) -> None:
    answer = await api.get(f"{BLUEPRINTS}/lake")
    is_problem(answer, 422)
    assert [set(one) for one in answer.json()["errors"]] == [{"line", "place", "message"}] * 2
    assert [one["line"] for one in answer.json()["errors"]] == [8, 16]


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "pond.yaml"
    file.write_text(RIGHT)
    catalogue = Catalogue(tmp_path)
    assert catalogue.find("pond").blueprint is catalogue.find("pond").blueprint
    file.write_text(RIGHT.replace("A pond with ducks.", "A pond with swans."))
    assert catalogue.find("pond").blueprint.spec.description == "A pond with swans."
    file.unlink()
    with pytest.raises(UnlistedBlueprint):
        catalogue.find("pond")


class Kept:
    """A source with an uploaded blueprint under every name."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def find(self, name: str, digits: str | None = None) -> Blueprint | None:
        self.asked.append((name, digits))
        return Blueprint.parse(RIGHT.replace("ducks", "swans"))

    def list(self) -> Sequence[Blueprint]:
        return [Blueprint.parse(RIGHT), Blueprint.parse(RIGHT.replace("blueprint: pond", "blueprint: lagoon"))]


def test_the_operator_s_file_comes_before_what_was_handed_over(tmp_path: Path) -> None:
    kept = Kept()
    catalogue = Catalogue(tmp_path, kept)
    assert catalogue.find("pond").origin == "kept" and kept.asked == [("pond", None)]
    (tmp_path / "pond.yaml").write_text(RIGHT)
    assert catalogue.find("pond").origin == "operator"
    assert catalogue.find("pond:0123456789ab").origin == "kept" and kept.asked[1:] == [("pond", "0123456789ab")]
    listed = {one.blueprint.name: one.origin for one in catalogue.usable(lambda _: None)}
    assert (listed["pond"], listed["lagoon"], listed["course"]) == ("operator", "kept", "shipped")


def test_the_operator_s_file_comes_before_a_shipped_one(tmp_path: Path) -> None:
    assert Catalogue(tmp_path).find("course").origin == "shipped"
    (tmp_path / "course.yaml").write_text(RIGHT.replace("blueprint: pond", "blueprint: course"))
    assert Catalogue(tmp_path).find("course").origin == "operator"
