"""The command `mcc generate` refuses what no service would accept, before anything is started."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mcc.cli.test_blueprints import RIGHT, WRONG
from tests.mcc.cli.test_commands import Done, mcc


def generate(home: Path, *arguments: str) -> Done:
    (home / "here").mkdir()
    (home / "here" / "pond.yaml").write_text(RIGHT)
    (home / "here" / "lake.yaml").write_text(WRONG)
    return mcc("generate", *arguments, data_dir=home / "data", cwd=home / "here", XDG_CONFIG_HOME=str(home / "config"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Name either a blueprint, or an existing document"),
        (["pond.yaml", "--document", "@last"], "Name either a blueprint, or an existing document"),
        (["pond.yaml", "--node", "/duck-1"], "--document is missing"),
        (["nowhere.yaml"], "nowhere.yaml is no file"),
        (["pond.yaml", "--set", "name"], "--set: 'name': write key=value"),
        (["pond.yaml", "--set", "nmae=Blue"], r'--set: There is no field nmae \(did you mean "name"\?\)'),
        (["pond.yaml", "--set", "depth=2"], "--set: There is no field depth; there is: name"),
        (["pond.yaml", "--out", "pond.pdf"], r"--out: pond.pdf ends in none of \.json, \.md, \.html, \.jsonl"),
        (["pond.yaml", "--out", "nowhere/pond.md"], "--out: there is no directory .*/nowhere"),
        (["pond.yaml", "--out", "pond.md", "--detach"], "--out .* does not go with --detach"),
        (["pond.yaml", "--on-failure", "quorum=most"], "--on-failure: 'quorum=most'"),
        (["pond.yaml", "--on-failure", "quorum=7"], "on_failure"),
        (["pond.yaml", "--on-failure", "sometimes"], "on_failure"),
        (["pond.yaml", "--limit", "rouns=3"], "did you mean 'rounds'"),
        (["pond.yaml", "--workspace", "/nowhere"], "/nowhere is not a directory"),
        (["pond.yaml", "--idempotency-key", "a b"], "visible ASCII"),
        (["pnod"], "There is no blueprint 'pnod'"),
    ],
)
def test_a_wrong_use_is_2_before_anything_is_started(arguments: Sequence[str], sentence: str, tmp_path: Path) -> None:
    told = generate(tmp_path, *arguments)
    assert told.code == 2, told.stderr
    assert re.search(sentence, told.stderr), told.stderr
    assert told.stdout == "" and not (tmp_path / "data").exists()


def test_of_a_wrong_blueprint_all_is_told_and_nothing_is_started(tmp_path: Path) -> None:
    told = generate(tmp_path, "lake.yaml")
    assert told.code == 2
    assert "lake.yaml:8: " in told.stderr and "lake.yaml:16: " in told.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("arguments", [["pond.yaml", "--detach"], ["pond.yaml", "--url", "http://127.0.0.1:1"]])
def test_without_the_service_that_it_needs_it_is_3(arguments: Sequence[str], tmp_path: Path) -> None:
    told = generate(tmp_path, *arguments)
    assert (told.code, told.stdout) == (3, "")
