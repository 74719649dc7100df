"""The import graph in each language, and the parts and reading order derived from it."""

import pytest

from drone.models.offline.imports import graph
from drone.models.offline.parts import parts_of
from drone.models.offline.tool_output import Hit


def uses(path: str, line: str, *files: str, module: str = "") -> tuple[str, ...]:
    return graph([Hit(path, 1, line)], [path, *files], module).uses.get(path, ())


@pytest.mark.parametrize(
    ("path", "line", "used"),
    [
        ("pkg/a.py", "from pkg.b import thing", "pkg/b.py"),
        ("pkg/a.py", "from pkg import b, c", "pkg/b.py"),
        ("pkg/a.py", "import pkg.b as other", "pkg/b.py"),
        ("pkg/a.py", "    from . import b", "pkg/b.py"),
        ("src/pkg/deep/a.py", "from ..b import thing", "src/pkg/b.py"),
        ("src/pkg/a.py", "from pkg.b import thing  # why", "src/pkg/b.py"),
        ("pkg/a.py", "from pkg.deep import Name", "pkg/deep/__init__.py"),
        ("lib/a.js", "const b = require('./b');", "lib/b.js"),
        ("lib/a.js", "import { b } from '../src'", "src/index.js"),
        ("lib/a.ts", "import { b } from './b.js'", "lib/b.ts"),
        ("lib/a.ts", "export * from './b'", "lib/b.ts"),
        ("src/a.rs", "use crate::b::{Thing, Other};", "src/b.rs"),
        ("src/a.rs", "pub(crate) use super::b::Thing;", "src/b.rs"),
        ("src/main.rs", "mod b;", "src/b.rs"),
        ("src/a/mod.rs", "mod b;", "src/a/b.rs"),
        ("core/src/a/deep.rs", "use super::super::b::Thing;", "core/src/b.rs"),
        ("src/a.c", '#include "b.h"', "src/b.h"),
        ("src/a.cpp", "# include <json/b.h>", "include/json/b.h"),
        ("src/x/A.java", "import static org.x.B.run;", "src/org/x/B.java"),
        ("src/x/A.java", "import org.x.B;", "src/org/x/B.java"),
    ],
)
def test_a_line_that_imports_names_a_file(path: str, line: str, used: str) -> None:
    assert uses(path, line, used) == (used,)


def test_in_go_a_package_is_used_and_its_first_file_stands_for_it() -> None:
    line = '\tzed "example.org/zed/internal/herd"'
    files = ("internal/herd/a.go", "internal/herd/herd.go")
    assert uses("cmd/main.go", line, *files, module="example.org/zed") == ("internal/herd/herd.go",)
    assert uses("cmd/main.go", '\t"example.org/zedzed/internal/herd"', *files, module="example.org/zed") == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import os, sys"),
        ("a.py", "from . import"),
        ("a.js", "const x = require('express')"),
        ("a.js", "import '../../../etc/passwd'"),
        ("a.c", '#include "../../up.h"'),
        ("a.rs", "use super::super::super::x;"),
        ("a.go", '"'),
        ("a.java", "import x;"),
        ("a.xyz", "import a"),
    ],
)
def test_imports_from_outside_the_workspace_are_left_out(path: str, line: str) -> None:
    assert uses(path, line, "b.py") == ()


def test_an_ambiguous_header_is_not_guessed() -> None:
    assert uses("src/a.c", "#include <b.h>", "x/b.h", "y/b.h") == ()


def test_parts_are_directories_where_there_are_some_and_files_where_there_are_few() -> None:
    lines = [Hit("p/app.py", 1, "from p import db, web"), Hit("p/web.py", 1, "import p.db")]
    parts = parts_of(graph(lines, ["p/app.py", "p/web.py", "p/db.py"]))
    assert (parts.base, parts.by_use()) == ("p", ["p/db.py", "p/web.py", "p/app.py"])
    names = "abcdef"
    files = [f"p/{name}/{part}.py" for name in names for part in ("one", "two")]
    lines = [Hit(f"p/{name}/one.py", 1, "from p.a import two") for name in names]
    parts = parts_of(graph(lines, files))
    assert parts.users["p/a/"] == ("p/b/", "p/c/", "p/d/", "p/e/", "p/f/")


def test_parts_that_use_each_other_are_named() -> None:
    lines = [Hit("p/a.py", 1, "from p import b"), Hit("p/b.py", 1, "from p import a")]
    assert parts_of(graph(lines, ["p/a.py", "p/b.py"])).mutual() == [("p/a.py", "p/b.py")]
