"""The operator's rule functions: where they are loaded from, and which problems are reported."""

import logging
from pathlib import Path

import pytest

from mcc.documents.own_functions import own_functions

GOOD = """
from mcc.documents.functions import function

@function("titles_differ")
def titles_differ(node):
    return None

def helper(): ...
"""


def written(directory: Path, name: str, text: str) -> str:
    (directory / f"{name}.py").write_text(text)
    return name


def test_a_file_beside_the_configuration_is_loaded_with_the_functions_that_it_marks(tmp_path: Path) -> None:
    found = own_functions([written(tmp_path, "my_rules", GOOD)], tmp_path)
    assert set(found.functions) == {"titles_differ"} and found.problems == ()


def test_a_module_that_can_be_imported_is_loaded_by_its_name() -> None:
    found = own_functions(["json"], None)
    assert found.functions == {} and "json (mcc.toml) holds no function" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_the_kind", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit"),
        ("x = 1", "holds no function"),
        (GOOD, "another function is called 'titles_differ'"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_said_and_the_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    with caplog.at_level(logging.WARNING, "mcc.documents"):
        found = own_functions([written(tmp_path, "good", GOOD), written(tmp_path, "bad", text)], tmp_path)
    assert set(found.functions) == {"titles_differ"}
    [problem] = found.problems
    assert said in problem and f"{tmp_path}/bad.py" in problem and problem in caplog.text


def test_a_file_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    name = written(tmp_path, "open", f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "open.py").chmod(0o666)
    found = own_functions([name], tmp_path)
    assert "can be written by others" in found.problems[0] and not (tmp_path / "ran").exists()


def test_nothing_is_looked_for_where_no_module_is_named(tmp_path: Path) -> None:
    written(tmp_path, "my_rules", GOOD)
    assert own_functions([], tmp_path).functions == {}
