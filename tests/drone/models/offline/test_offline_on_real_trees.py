"""The offline model as the shipped agents, with their gates and tools, on small trees and on hostile files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drone.agent.subagents.runner import ForkResult
from drone.in_process import InProcessRunner
from drone.models.offline import OfflineModel
from drone.models.offline.report import HONEST
from mcc.rules.reads import Passage, Reads

GO = {
    "go.mod": "module example.org/zed\n\ngo 1.22\n",
    "cmd/zed/main.go": "// Command zed counts zebras.\npackage main\n\nfunc main() {}\n",
    "internal/herd/herd.go": "// Package herd keeps stripes apart.\npackage herd\n\nfunc Gather() {}\n",
    "internal/herd/herd_test.go": "package herd\n\nfunc TestGather(t *testing.T) {}\n",
}
NODE = {
    "package.json": '{\n"name": "quibble",\n"description": "Quibbles over words",\n"bin": {"quib": "./bin/quib.js"}\n}',
    "README.md": "Quibble\n=======\n\n[![badge](a)](b)\n\nQuibble argues about words until they give in.\n",
    "bin/quib.js": '#!/usr/bin/env node\nrequire("../src")\n',
    "src/index.js": "// The argument itself.\nfunction quibble(word) {}\n",
}
SMALL = {
    "README.md": "# Sums\n\nSums adds figures.\n\nRun its tests with `python3 -m unittest`.\n",
    "calc.py": '"""Adds."""\n\n\ndef add(a, b):\n    return a + b  # TODO: more\n\n\ndef run(text):\n    eval(text)\n',
    "test_calc.py": "import unittest\n\nimport calc\n",
}


def plant(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def asked(root: Path, files: Mapping[str, str], task: str, agent: str = "explore") -> ForkResult:
    plant(root, files)
    return await InProcessRunner({"offline": OfflineModel()}, workspace=root).run_isolated(agent, task)


def findings_of(result: ForkResult) -> list[dict[str, Any]]:
    assert isinstance(result.result, dict)
    return list(result.result["findings"])


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        (
            GO,
            ["module example.org/zed", "4 files", "3 Go", "`cmd/zed/main.go:4`", "Command zed counts", "`Gather`"],
        ),
        (NODE, ["quibble", "4 files", "2 JavaScript", "`bin/quib.js:1`", "argues about words", "`src/index.js:2`"]),
        (SMALL, ["3 files", "2 Python", "Sums adds figures.", "`add`", "python3 -m unittest"]),
    ],
    ids=["go", "node", "python"],
)
async def test_the_answer_quotes_what_is_in_the_tree(
    tmp_path: Path, files: Mapping[str, str], facts: list[str]
) -> None:
    answer = (await asked(tmp_path, files, "Explain this repository")).text
    for fact in (*facts, HONEST):
        assert fact in answer, fact


@pytest.mark.parametrize(("task", "shown"), [("Read internal/herd", "herd_test.go"), ("Read go.mod", "go 1.22")])
async def test_what_is_read_may_be_a_file_or_a_directory(tmp_path: Path, task: str, shown: str) -> None:
    answer = (await asked(tmp_path, GO, task)).text
    assert shown in answer and "not done" not in answer


async def test_neither_a_file_nor_a_directory_is_said_to_be_refused(tmp_path: Path) -> None:
    answer = (await asked(tmp_path, GO, "Read internal/nothing")).text
    assert "`read_file` refused: internal/nothing" in answer


async def test_a_question_about_tests_is_answered_from_the_files_and_with_nothing_else(tmp_path: Path) -> None:
    answer = (await asked(tmp_path, SMALL, "How are its tests run?")).text
    assert "`README.md:5`: “Run its tests with `python3 -m unittest`.”" in answer
    assert "`test_calc.py:1`: “import unittest”" in answer
    assert "pytest" not in answer and "Sums adds" not in answer and len(answer.splitlines()) < 15


SAID = {
    "Makefile": ("all:\n\techo\ntest:\n\tprove\n", "test:"),
    "package.json": ('{"scripts": {\n"test": "node check.js"\n}}\n', '“"test": "node check.js"”'),
    "CONTRIBUTING.md": ("Then:\n\n    cargo test --all\n", "cargo test --all"),
    "tox.ini": ("[testenv]\ncommands = pytest {posargs}\n", "commands = pytest"),
    "docs.md": ("make test\n", ""),
    "pyproject.toml": ('[x]\ntest = ["pytest>=9"]\n', ""),
}


@pytest.mark.parametrize("name", SAID)
async def test_how_tests_are_run_is_said_in_the_words_of_the_repository_or_not_at_all(
    tmp_path: Path, name: str
) -> None:
    text, quote = SAID[name]
    answer = (await asked(tmp_path, {name: text, "test_it.py": "import pytest\n"}, "How are its tests run?")).text
    assert quote in answer and "`test_it.py:1`: “import pytest”" in answer
    assert ("I found no lines that say how tests are run." in answer) == (not quote)


async def test_imports_among_the_files_are_found_and_those_of_others_are_not(tmp_path: Path) -> None:
    files = {
        **SMALL,
        "web/a.js": "import fs from 'fs'\nimport b from './b.js'\n",
        "web/b.js": "export default 1\n",
        "src/sums/one.py": "import os\nimport sums.two\n",
        "src/sums/two.py": "from collections import abc\n",
        "src/sums/os.py": "X = 1\n",
    }
    answer = (await asked(tmp_path, files, "Explain this repository")).text
    block = answer.partition("**Imports another of these files**")[2].partition("**")[0]
    named = ("`test_calc.py:3`: “import calc”", "`web/a.js:2`", "`src/sums/one.py:2`: “import sums.two”")
    assert all(one in block for one in named) and block.count("\n- ") == len(named), answer


@pytest.mark.parametrize("agent", ["scout", "review", "security_analyst"])
@pytest.mark.parametrize("files", [GO, NODE, SMALL], ids=["go", "node", "python"])
@pytest.mark.parametrize("task", ["Explain this repository", "Review the security of this code", "How is it tested?"])
async def test_gates_accept_reports_in_which_every_quote_stands_where_it_says(
    tmp_path: Path, agent: str, files: Mapping[str, str], task: str
) -> None:
    result = await asked(tmp_path, files, task, agent)
    assert result.error is None and isinstance(result.result, dict) and result.result["status"] == "completed"
    reads = Reads(Passage(path, 1, tuple(text.split("\n"))) for path, text in files.items())
    for one in findings_of(result):
        if one.get("evidence"):
            assert not reads.quote_problem(one["path"], one["evidence"]), one
            assert not reads.line_problem(one["path"], one["line"]), one


async def test_a_reviewer_names_what_its_patterns_find_and_where(tmp_path: Path) -> None:
    found = findings_of(await asked(tmp_path, SMALL, "Review this code", "review"))
    assert [(one["title"], one["path"], one["line"]) for one in found] == [("Marked as unfinished", "calc.py", 5)]
    found = findings_of(await asked(tmp_path, SMALL, "Review the security of this code", "security_analyst"))
    assert [(one["title"], one["line"], one["severity"]) for one in found] == [
        ("Text that is run as code", 9, "medium")
    ]


async def test_a_secret_that_it_finds_is_not_repeated(tmp_path: Path) -> None:
    files = {"key.py": 'API_KEY = "abcdefghijklmnopqrstuvwxyz0123"\n'}
    result = await asked(tmp_path, files, "Review the security of this code", "security_analyst")
    [found] = findings_of(result)
    assert (found["path"], found["line"]) == ("key.py", 1) and "abcdefgh" not in str(result.result)


async def test_where_something_is_defined_comes_before_where_prose_speaks_of_it(tmp_path: Path) -> None:
    files = {"docs/all.md": "Call `knead()`.\n" * 90, "zest/dough.py": "# knead\n\ndef knead():\n    pass\n"}
    answer = (await asked(tmp_path, files, "Where is `knead` defined?")).text
    assert answer.index("`zest/dough.py:3`: “def knead():”") < answer.index("`zest/dough.py:1`")


async def test_an_empty_tree_is_reported_as_empty(tmp_path: Path) -> None:
    assert "no files" in (await asked(tmp_path, {}, "Explain this repository")).text


async def test_a_file_that_is_not_there_is_not_done(tmp_path: Path) -> None:
    result = await asked(tmp_path, SMALL, "read nothing.py")
    assert result.text.startswith("This was not done.") and "nothing.py does not exist" in result.text


async def test_files_made_to_hold_up_a_reader_do_not(tmp_path: Path) -> None:
    hostile = {
        "README.md": "# " + "[" * 50_000 + "\n" + "## " + "# " * 40_000,
        "pyproject.toml": "\n" * 60_000 + "name",
        "package.json": "{" * 50_000,
        "go.mod": "\n" * 60_000 + "module x",
        "comments.py": "# \n" * 20_000 + "x = 1\n",
        "wide.js": "a" * 150_000,
        "spaces.js": " " * 150_000 + "function x() {}",
        "stars.js": "/*" + " *\n" * 30_000,
    }
    result = await asked(tmp_path, hostile, "Explain this repository")
    assert "8 files" in result.text and len(result.text) < 10_000
