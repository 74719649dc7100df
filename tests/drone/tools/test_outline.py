"""outline as a model calls it: the symbols of a source file, within limits."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.places.paths import Workspace
from drone.tools.catalog import Toolbox
from drone.tools.files.outline import LARGEST, LINES, folded, outline, symbols_of
from drone.tools.files.symbols import DEEPEST, MOST, Symbol
from drone.tools.frame.tool import FunctionTools, ToolFailed
from drone.tools.git.program import Git

Use = Callable[..., Coroutine[Any, Any, Output]]

SOURCES = {
    "a.py": (
        "@dec\nclass A(B):\n    x = 1\n    async def f(self):\n        pass\n\ndef g(): ...\n",
        "class A|  method f|function g",
    ),
    "a.js": (
        "class A { #p = 1; m() {} static s() {} }\nconst g = function () {};\nconst h = async () => 1, no = 2;\n"
        "exports.z = function () {};\n",
        "class A|  method m|  method s|function g|function h|function exports.z",
    ),
    "a.ts": (
        "export interface I { a(): void; b: string }\nexport abstract class C<T> { get y() { return 1 } f = () => 1 }\n"
        "enum E { A }\ntype T = string\nnamespace N { export function q() {} }\n",
        "interface I|  method a|abstract class C|  method y|  method f|enum E|type T|namespace N|  function q",
    ),
    "a.tsx": (
        "export const V = () => <b/>\nexport function W() { return <i/> }\n",
        "function V|function W",
    ),
    "a.go": (
        "package m\ntype S struct { A int }\ntype I interface { M() }\nfunc (s *S) M() {}\nfunc main() {}\n",
        "type S|type I|  method M|function (s *S) M|function main",
    ),
    "a.rs": (
        "mod m { fn a() {} }\nstruct S { a: i32 }\nenum E { A }\ntrait T { fn x(&self); }\n"
        "impl T for S { fn x(&self) {} }\nimpl<T> F<T> { pub fn n() {} }\n",
        "module m|  function a|struct S|enum E|trait T|  method x|impl T for S|  method x|impl F<T>|  method n",
    ),
    "A.java": (
        "class A { int f; A() {} void m() {} enum E { X } interface I { void q(); } record R(int a) {} }\n",
        "class A|  method A|  method m|  enum E|  interface I|    method q|  record R",
    ),
    "a.c": (
        "struct s { int a; };\nstruct s *v;\nstatic int *f(int a) { return 0; }\nint g(void);\n#define M(x) x\n",
        "struct s|function f|function g|macro M",
    ),
    "a.h": (
        "namespace n { class A : B { A(); ~A() {} int m() const; }; }\ntemplate<class T> T f(T a);\n"
        "int n::A::m() const { return 1; }\n",
        "namespace n|  class A|    method A|    method ~A|    method m|function f|function n::A::m",
    ),
    "a.rb": (
        "module M\n class A < B\n  def x; end\n  def self.y; end\n end\nend\n",
        "module M|  class A|    method x|    method y",
    ),
    "a.php": (
        "<?php interface I { function q(); } class A implements I { public $p; function q() {} } function f() {}\n",
        "interface I|  method q|class A|  method q|function f",
    ),
    "a.cs": (
        "namespace N { class A { A() {} void M() {} int P { get; set; } } interface I {} struct S {} }\n",
        "namespace N|  class A|    method A|    method M|  interface I|  struct S",
    ),
    "a.kt": (
        "class A(val x: Int) {\n fun m() {}\n}\ninterface I {\n fun q()\n}\nobject O\nfun f() = 1\n",
        "class A|  method m|interface I|  method q|object O|function f",
    ),
    "a.swift": (
        "struct S { var p = 1\n init() {}\n func m() {} }\nprotocol P { func q() }\nextension S { func z() {} }\n",
        "struct S|  method init|  method m|protocol P|  method q|extension S|  method z",
    ),
    "a.sh": ("f() { echo; }\nfunction g { :; }\n", "function f|function g"),
    "a.lua": ("local function b() end\nfunction M.d() end\n", "function b|function M.d"),
    "a.scala": (
        "class A { def m = 1 }\nobject O { def q() = 1 }\ntrait T\n",
        "class A|  method m|object O|  method q|trait T",
    ),
}


@pytest.fixture
def tools(tmp_path: Path) -> ToolSet:
    return FunctionTools([outline], workspace=Workspace(tmp_path))


@pytest.mark.parametrize("name", SOURCES)
async def test_each_language_tells_what_it_declares(use: Use, tools: ToolSet, tmp_path: Path, name: str) -> None:
    source, expected = SOURCES[name]
    (tmp_path / name).write_text(source)
    head, *lines = (await use(tools, "outline", path=name)).content.splitlines()
    assert "|".join(line.partition("\t")[2] for line in lines) == expected
    assert head.endswith(f"{len(lines)} symbols")


async def test_lines_are_those_that_read_file_counts(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(
        b"\xef\xbb\xbf" + b"import os\r\n\r\nclass A:\r\n    def f(self):\r\n        return 1\r\n"
    )
    output = await use(tools, "outline", path="a.py")
    assert output.content == "a.py, python, 2 symbols\n3-5\tclass A\n4-5\t  method f\n"
    (tmp_path / "w.py").write_text("def wide(): ...\n", encoding="utf-16")
    assert "1-1\tfunction wide" in (await use(tools, "outline", path="w.py")).content


async def test_what_cannot_be_parsed_is_said(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A:\n    def f(self):\n        return (\n\ndef g(: pass\n")
    assert "parts of it could not be parsed" in (await use(tools, "outline", path="a.py")).content.splitlines()[0]
    (tmp_path / "empty.py").touch()
    assert (await use(tools, "outline", path="empty.py")).content == "empty.py, python, 0 symbols\n"


async def test_a_file_that_has_no_outline_says_why(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("def f(): ...\n")
    (tmp_path / "bin.py").write_bytes(b"\x7fELF\0\0\1" * 99)
    (tmp_path / "min.js").write_text("a" * (LARGEST + 1))
    (tmp_path / "out.py").symlink_to("/etc/passwd")
    said = {name: await use(tools, "outline", path=name) for name in ("a.txt", "bin.py", "min.js", "out.py", "b.py")}
    assert all(output.is_error for output in said.values())
    assert "no grammar is known" in said["a.txt"].content and ".py" in said["a.txt"].content
    assert "is binary" in said["bin.py"].content
    assert "more than 2,000,000 bytes" in said["min.js"].content
    assert "root:" not in said["out.py"].content
    assert "There is bin.py" in said["b.py"].content or "find_files" in said["b.py"].content


@pytest.mark.parametrize("piece", ["(", "`${", "class A{m(){"])
def test_deep_nesting_ends_no_other_process(piece: str) -> None:
    with suppress(ToolFailed):
        found = symbols_of(piece * 100_000, "javascript", "deep.js", Event(), seconds=1.0)
        assert len(found.found) <= MOST


def test_a_parser_that_does_not_end_is_killed() -> None:
    with pytest.raises(ToolFailed, match=r"long\.js has no outline: reading it took too long"):
        symbols_of("var a=[1,2,function(){return x+1}];" * 50_000, "javascript", "long.js", Event(), seconds=0.05)


def test_inner_symbols_are_folded_where_there_are_many() -> None:
    several = [
        Symbol(kind, f"{kind}{number}", number, number, depth)
        for number in range(100)
        for kind, depth in (("class", 0), ("method", 1), ("function", 2), ("function", 2))
    ]
    lines = folded(tuple(several), LINES)
    assert len(lines) == 200
    assert lines[:2] == ["0-0\tclass class0\n", "0-0\t  method method0 (2 symbols)\n"]
    top = folded(tuple(Symbol("class", "A", n, n, 0) for n in range(400)), LINES)
    assert len(top) == LINES + 1 and top[-1].startswith("[100 more from line 300 on")


async def test_symbols_are_bounded_in_number_and_depth(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text("def f(): ...\n" * (MOST + 1))
    head, *lines = (await use(tools, "outline", path="many.py")).content.splitlines()
    assert "5,000 symbols, more are not looked at" in head and len(lines) == LINES + 1
    (tmp_path / "deep.py").write_text(
        "".join(f"{' ' * depth}class A{depth}:\n" for depth in range(30)) + " " * 30 + "x\n"
    )
    head, *lines = (await use(tools, "outline", path="deep.py")).content.splitlines()
    assert len(lines) == DEEPEST


def test_without_tree_sitter_there_is_no_such_tool_and_the_drone_says_how_to_get_it(tmp_path: Path) -> None:
    git = Git.found(Bubblewrap.found())
    with_it, without = Toolbox(None, git, ()), Toolbox(None, git, (), "tree-sitter is not installed: pip install …")
    for toolbox, there in ((with_it, True), (without, False)):
        assert ("outline" in {spec.name for spec in toolbox.tools(tmp_path).specs()}) is there
        [capability] = [one for one in toolbox.capabilities() if one.name == "outline"]
        assert (capability.problem is None) is there
