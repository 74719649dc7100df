"""Mutants are written for the code as it is, and one that nobody notices is told."""

import ast
from pathlib import Path

import pytest

from tests.faults import mutants
from tests.faults.mutants import MUTANTS, ROOT, DoesNotApply, Fate, Mutant, Patch, Tier, fate_of, table


def _root(directory: Path) -> Path:
    """A product of one line, with everything else that a copy takes along."""
    for name in mutants.COPIED:
        if "." in name:
            (directory / name).touch()
        else:
            (directory / name).mkdir()
    (directory / "mcc" / "one.py").write_text("SAFE = True\n")
    return directory


BREAKING = Patch("mcc/one.py", "SAFE = True", "SAFE = False")
SHARP = Tier("sharp", ("-c", "import sys; sys.exit('SAFE = True' not in open('mcc/one.py').read())"))
BLIND = Tier("blind", ("-c", "pass"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_patch_applies_to_the_code_as_it_is_and_leaves_python(mutant: Mutant) -> None:
    texts = {patch.file: (ROOT / patch.file).read_text() for patch in mutant.patches}
    for patch in mutant.patches:
        assert texts[patch.file].count(patch.old) == 1, patch.old
        texts[patch.file] = texts[patch.file].replace(patch.old, patch.new)
    for file, text in texts.items():
        ast.parse(text, file)


def test_there_are_at_least_twelve_mutants_with_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12


def test_a_mutant_is_caught_by_the_first_tier_that_notices(tmp_path: Path) -> None:
    fate = fate_of(Mutant("unsafe", (BREAKING,), (BLIND, SHARP)), _root(tmp_path))
    assert (fate.caught, fate.caught_by) == (True, "sharp")
    assert (tmp_path / "mcc" / "one.py").read_text() == "SAFE = True\n"


def test_a_mutant_that_nobody_notices_survives() -> None:
    assert not Fate("unsafe", None, 1.0).caught
    assert "survives" in "".join(str(cell) for cell in table([Fate("unsafe", None, 1.0)]).columns[1].cells)


def test_a_tier_that_does_not_end_in_time_has_noticed(tmp_path: Path) -> None:
    assert mutants.notices(Tier("slow", ("-c", "import time; time.sleep(60)")), tmp_path, seconds=0.2)


def test_a_tier_that_fails_without_a_mutant_is_named(tmp_path: Path) -> None:
    broken = Tier("broken", ("-c", "raise SystemExit(1)"))
    assert mutants.failing_already([Mutant("any", (), (BLIND, broken))], _root(tmp_path)) == ["broken"]


def test_a_patch_for_code_that_has_changed_is_no_catch(tmp_path: Path) -> None:
    stale = Patch("mcc/one.py", "UNSAFE", "")
    fate = fate_of(Mutant("stale", (stale,), (SHARP,)), _root(tmp_path))
    assert not fate.caught and fate.problem is not None and "0 times" in fate.problem
    with pytest.raises(DoesNotApply):
        stale.applied(tmp_path)
