"""The table of names that make programs run something, and the globs that take names out of it."""

import re
from pathlib import Path

import pytest

from mcc.configuration.protected_names import AS_OF, TABLE, problem_of
from mcc.settings import BadSettings, ServiceSettings, load


def settings(tmp_path: Path, globs: str) -> ServiceSettings:
    file = tmp_path / "mcc.toml"
    file.write_text(f"[permission]\nunprotected = {globs}\n")
    return load({"MCC_CONFIG": str(file), "MCC_DATA_DIR": str(tmp_path)}, directory=tmp_path)


def test_the_table_is_dated_and_names_each_thing_once() -> None:
    names = [one.name.casefold() for one in TABLE]
    assert re.fullmatch(r"20\d\d-\d\d", AS_OF) and len(names) == len(set(names))
    assert all(one.program and one.name.count("*") <= 1 and not one.name.startswith("/") for one in TABLE)


@pytest.mark.parametrize(
    "glob",
    [
        ".pre-commit-config.yaml",
        ".PRE-COMMIT-config.yaml",
        ".vscode",
        "app/.vscode",
        "docs/AGENTS.md",
        "*.md",
        ".env.*",
        ".env.local",
        "mise.*",
        "mise.ci.toml",
        ".github/copilot-instructions.md",
        ".github/*",
        "tests/fixtures/**",
        "**",
    ],
)
def test_globs_may_take_names_out(glob: str) -> None:
    assert problem_of(glob) is None


@pytest.mark.parametrize(
    ("glob", "said"),
    [
        (".git", "nobody takes .git out"),
        ("sub/.git/hooks", "nobody takes .git out"),
        (".GIT/config", "nobody takes .git out"),
        ("mcc.toml", "nobody takes mcc.toml out"),
        (".mcc/agents/**", "nobody takes .mcc out"),
        (".pre-commit-config.yml", 'did you mean ".pre-commit-config.yaml"?'),
        ("fixtures", "write 'fixtures/**'"),
        (".vscode/settings.json", "write '.vscode'"),
        ("app/.claude/skills/**", "write 'app/.claude'"),
        ("/", "names nothing"),
        ("x" * 1_000, "names nothing that is protected"),
    ],
)
def test_globs_that_take_nothing_out_are_a_sentence(tmp_path: Path, glob: str, said: str) -> None:
    assert said in (problem_of(glob) or "")
    with pytest.raises(BadSettings, match=r"line 2: permission\.unprotected\.0: "):
        settings(tmp_path, f'["{glob}"]')


def test_the_setting_is_shown(tmp_path: Path) -> None:
    found = settings(tmp_path, '[".pre-commit-config.yaml"]')
    assert found.permission.unprotected == (".pre-commit-config.yaml",)
    assert ".pre-commit-config.yaml" in found.shown()["permission"] and not found.permission.rules
