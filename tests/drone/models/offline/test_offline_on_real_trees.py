"""The offline model with the shipped tools, on small trees of three languages and on hostile files."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from drone.agent.ports.messages import ToolSpec
from drone.agent.turns.toolset import StartedCall, ToolSet
from drone.tools.catalog import Toolbox
from mcc.contracts.entry import Origin
from tests.drone.models.offline.playing import SUBAGENT, Answerer, Failure, play

GO = {
    "go.mod": "module example.org/zed\n\ngo 1.22\n\nrequire github.com/x/y v1.2.3\n",
    "cmd/zed/main.go": "// Command zed counts zebras.\npackage main\n\nfunc main() {}\n",
    "internal/herd/herd.go": "// Package herd keeps stripes apart.\npackage herd\n\nfunc Gather() {}\n",
    "internal/herd/herd_test.go": "package herd\n\nfunc TestGather(t *testing.T) {}\n",
}
NODE = {
    "package.json": '{"name": "quibble", "description": "Quibbles over words", "bin": {"quib": "./bin/quib.js"}}',
    "README.md": "# Quibble\n\n[![badge](a)](b)\n\nQuibble argues about words until they give in.\n",
    "bin/quib.js": '#!/usr/bin/env node\nrequire("../src")\n',
    "src/index.js": "// The argument itself.\nmodule.exports = { quibble }\nfunction quibble(word) {}\n",
    "test/quib.test.js": "test()\n",
}
RUST = {
    "Cargo.toml": '[package]\nname = "ferrous"\ndescription = "Rusts on purpose."\n\n[dependencies]\nserde = "1"\n',
    "src/main.rs": "//! Rusts a beam.\nfn main() {}\n",
    "src/beam.rs": "//! What a beam is.\npub struct Beam;\n",
}


def plant(root: Path, files: Mapping[str, str]) -> ToolSet:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Toolbox.found().tools(root)


def with_explorers(tools: ToolSet) -> tuple[Answerer, tuple[ToolSpec, ...]]:
    specs = tuple(tools.specs())

    async def answerer(name: str, arguments: Mapping[str, object]) -> str:
        if name == "subagent":
            return (await play(str(arguments["prompt"]), answerer, specs)).answer
        output = await tools.call(StartedCall("c", name, arguments, Origin()))
        if output.is_error:
            raise Failure(output.content)
        return output.content

    return answerer, (*specs, SUBAGENT)


async def explained(root: Path, files: Mapping[str, str]) -> str:
    return (await play("Explain this repository", *with_explorers(plant(root, files)))).answer


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        (
            GO,
            [
                "example.org/zed",
                "4 files",
                "3 Go",
                "`cmd/zed/main.go:4`",
                "Command zed counts zebras.",
                "`Gather`",
                "herd_test.go",
            ],
        ),
        (
            NODE,
            [
                "**quibble**",
                "5 files",
                "3 JavaScript",
                "./bin/quib.js",
                "`bin/quib.js:1`",
                "argues about words",
                "`quibble`",
            ],
        ),
        (RUST, ["**ferrous**", "3 files", "2 Rust", "`src/main.rs:2`", "Rusts a beam.", "`Beam`", "What a beam is."]),
    ],
)
async def test_the_answer_names_what_is_in_the_tree(tmp_path: Path, files: Mapping[str, str], facts: list[str]) -> None:
    answer = await explained(tmp_path, files)
    for fact in facts:
        assert fact in answer, fact
    assert all(path in answer for path in files if "/" not in path)


C = {
    "configure.ac": "AC_INIT([quern], [1.0])\n",
    "Makefile.am": "SUBDIRS = src tests\n",
    "src/Makefile.am": "bin_PROGRAMS = quern\n",
    "src/quern.h": "int grind(int);\n",
    "src/quern.c": '#include "quern.h"\nint grind(int x)\n{\n    return x;\n}\n',
    "src/main.c": '#include "quern.h"\nint main(int argc, char **argv)\n{\n    return grind(argc);\n}\n',
    "tests/Makefile.am": "TESTS = one\n",
    "compile-ios.sh": '#!/bin/sh\n# "old values"\necho\n',
    "examples/show.py": "def main():\n    pass\n",
}


async def test_an_automake_project_is_explained_with_dependencies_and_a_reading_list(tmp_path: Path) -> None:
    answer = await explained(tmp_path, C)
    for fact in (
        "autoreconf -i && ./configure && make",
        "program `quern` (from `src/`)",
        "`make check`",
        "- `quern.h`: used by `main.c`, `quern.c`.",
        "- At the top, used by nothing here: `main.c`, `quern.c`.",
        "`src/main.c`: a program begins here",
        "`src/quern.h`: used by 2 other files",
    ):
        assert fact in answer, fact
    read = answer.split("## Read these first")[1].split("\n## ")[0]
    assert "old values" not in answer and "compile-ios" not in read and "examples" not in read


async def test_a_word_in_a_text_is_no_mark_of_something_unfinished(tmp_path: Path) -> None:
    files = {
        "Cargo.toml": '[package]\nname = "x"\n',
        "src/main.rs": 'const COLOURS: &str = "*rc=0;38:*TODO=1:";\nfn main() {}\n',
    }
    tools = plant(tmp_path, files)
    answer = (await play("Review this code", with_explorers(tools)[0], tuple(tools.specs()))).answer
    assert "marked as unfinished" in answer and "TODO=1" not in answer


async def test_where_something_is_defined_comes_before_where_prose_speaks_of_it(tmp_path: Path) -> None:
    files = {"docs/all.md": "Call `knead()`.\n" * 90, "zest/dough.py": "# knead\n\ndef knead():\n    pass\n"}
    tools = plant(tmp_path, files)
    answer = (await play("Where is `knead` defined?", with_explorers(tools)[0], tuple(tools.specs()))).answer
    assert answer.index("`zest/dough.py:3`: `def knead():`") < answer.index("`zest/dough.py:1`")
    assert "at least 62 lines in 2 files" in answer


async def test_two_trees_have_two_answers(tmp_path: Path) -> None:
    assert await explained(tmp_path / "a", GO) != await explained(tmp_path / "b", NODE)


async def test_an_empty_tree_is_reported_as_empty(tmp_path: Path) -> None:
    assert "no files" in await explained(tmp_path, {})


async def test_files_made_to_hold_up_a_reader_do_not(tmp_path: Path) -> None:
    hostile = {
        "README.md": "# " + "[" * 50_000 + "\n" + "## " + "# " * 40_000,
        "pyproject.toml": "\n" * 60_000 + "name",
        "package.json": "{" * 50_000,
        "go.mod": "\n" * 60_000 + "module x",
        "blank.py": "\n" * 20_000 + "x = 1\n",
        "comments.py": "# \n" * 20_000 + "x = 1\n",
        "wide.js": "a" * 150_000,
        "spaces.js": " " * 150_000 + "function x() {}",
        "stars.js": "/*" + " *\n" * 30_000,
    }
    assert "9 files" in await explained(tmp_path, hostile)
