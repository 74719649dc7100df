"""The commands `mcc blueprints` where no service runs: files checked, listed and shown."""

import json
from pathlib import Path

import pytest

from tests.mcc.cli.test_commands import Done, mcc

RIGHT = """
blueprint: pond
description: A pond with ducks.
root: pond
components:
  pond:
    metadata:
      name: {type: text, required: true, max_length: 40}
    properties:
      depth: {type: number, min: 0, max: 5, rules: [{cel: value != 3, message: Not three.}]}
      doubled: {type: number, formula: props.depth * 2}
    children: {duck: {min: 1}}
  duck:
    properties:
      colour: {type: choice, options: [brown, white], default: brown}
      seen: {type: list, items: {type: text, min_length: 2}, max_items: 3}
    rules: [{guideline: Ducks differ.}]
"""
WRONG = RIGHT.replace("max_length: 40", "max_lenght: 40").replace("max_items", "max_itmes")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The operator's directory of blueprints."""
    folder = tmp_path / "config" / "mcc" / "blueprints"
    folder.mkdir(parents=True)
    return folder


def blueprints(*arguments: str, home: Path) -> Done:
    """Run the command in an empty directory."""
    (home / "here").mkdir(exist_ok=True)
    config = {"XDG_CONFIG_HOME": str(home / "config")}
    return mcc("blueprints", *arguments, data_dir=home / "data", cwd=home / "here", **config)


def test_a_right_file_is_told_so_and_its_digest_is_over_its_content(tmp_path: Path) -> None:
    file, other = tmp_path / "pond.yaml", tmp_path / "pond.json"
    file.write_text(RIGHT)
    told = json.loads(blueprints("check", str(file), "--json", home=tmp_path).stdout)
    assert (told["name"], told["components"]) == ("pond", ["pond", "duck"])
    other.write_text(RIGHT.replace("A pond with ducks.", "'A pond with ducks.'  # the same"))
    assert json.loads(blueprints("check", str(other), "--json", home=tmp_path).stdout)["digest"] == told["digest"]
    plain = blueprints("check", str(file), home=tmp_path)
    assert (plain.code, plain.stdout) == (0, f"{file}: pond, 2 components, {told['digest'][:19]}: all is well\n")


def test_all_that_is_wrong_with_a_file_is_told_at_once_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "pond.yaml"
    file.write_text(WRONG)
    told = blueprints("check", str(file), home=tmp_path)
    assert told.code == 1
    name, seen = told.stdout.splitlines()
    assert name.startswith(f"{file}:8: components.pond.metadata.name.max_lenght: ")
    assert "did you mean 'max_length'" in name
    assert seen.startswith(f"{file}:16: components.duck.properties.seen.max_itmes: ")
    problem = json.loads(blueprints("check", str(file), "--json", home=tmp_path).stdout)
    assert problem["status"] == 422
    assert [(one["line"], one["place"]) for one in problem["errors"]] == [
        (8, "components.pond.metadata.name.max_lenght"),
        (16, "components.duck.properties.seen.max_itmes"),
    ]
    assert all(one["message"] for one in problem["errors"])


def test_what_is_no_file_is_a_wrong_use(tmp_path: Path) -> None:
    told = blueprints("check", str(tmp_path), home=tmp_path)
    assert (told.code, told.stderr) == (2, f"mcc: {tmp_path} is no file.\n")


def test_the_operator_s_own_are_listed_and_what_is_wrong_with_the_others_is_told(tmp_path: Path, own: Path) -> None:
    (own / "pond.yaml").write_text(RIGHT)
    (own / "lake.yaml").write_text(WRONG)
    told = blueprints("list", "--json", home=tmp_path)
    listed = {one["name"]: one for one in json.loads(told.stdout)["items"]}
    assert (listed["pond"]["origin"], listed["pond"]["components"]) == ("operator", ["pond", "duck"])
    assert "lake" not in listed and "lake.yaml:8: " in told.stderr


def test_blueprints_are_never_looked_for_in_a_workspace(tmp_path: Path) -> None:
    for place in ("here", "here/blueprints", "here/.mcc/blueprints", "here/prompts/blueprints"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "pond.yaml").write_text(RIGHT)
    assert "pond" not in blueprints("list", home=tmp_path).stdout
    assert blueprints("show", "pond", home=tmp_path).code == 2


def test_a_folder_that_others_can_write_is_not_read(tmp_path: Path, own: Path) -> None:
    (own / "pond.yaml").write_text(RIGHT)
    own.chmod(0o777)
    assert "pond" not in blueprints("list", home=tmp_path).stdout


def test_a_blueprint_is_shown_with_fields_rules_and_children(tmp_path: Path, own: Path) -> None:
    (own / "pond.yaml").write_text(RIGHT)
    told = blueprints("show", "pond", home=tmp_path)
    assert told.code == 0
    assert told.stdout.partition("\n\n")[2] == (
        "pond\n"
        "  metadata\n"
        "    name  text, at most 40 characters, required\n"
        "  properties\n"
        "    depth    number, 0 to 5\n"
        "      cel        value != 3  (Not three.)\n"
        "    doubled  number, = props.depth * 2\n"
        "  children  duck, at least 1\n"
        "\n"
        "duck\n"
        "  properties\n"
        "    colour  choice, brown or white, brown by default\n"
        "    seen    list, of text, at least 2 characters, at most 3 items\n"
        "  guideline  Ducks differ.\n"
    )
    whole = json.loads(blueprints("show", "pond", "--json", home=tmp_path).stdout)
    assert whole["content"]["components"]["pond"]["children"] == {"duck": {"min": 1}}


def test_a_name_that_is_not_there_is_told_with_the_nearest_one(tmp_path: Path, own: Path) -> None:
    (own / "pond.yaml").write_text(RIGHT)
    told = blueprints("show", "pnod", home=tmp_path)
    assert told.code == 2 and "pond" in told.stderr
    assert blueprints("show", "pond:000000000000", home=tmp_path).code == 2
