"""Globs, .gitignore rules as git reads them, and the walk that applies them."""

import os
import random
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from drone.sandbox.places.beneath import MAX_DEPTH
from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace
from drone.tools.files.glob import matcher
from drone.tools.files.ignore import MAX_BYTES, MAX_CHARACTERS, MAX_RULES, IgnoreFile
from drone.tools.files.pattern import GlobError, expression
from drone.tools.files.walk import Kind, Walk
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed


def files(root: Path, start: str = ".", **more: Any) -> list[str]:
    return [one.path for one in Walk(Workspace(root), start, **more).entries() if one.kind is Kind.FILE]


@pytest.mark.parametrize(
    ("glob", "fitting", "others"),
    [
        ("*.py", ["a.py", "src/deep/b.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py", "xsrc/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["src/a.js", "a/src/b.py"]),
        ("**/test_*", ["test_a", "x/y/test_b"], ["x/atest_a"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "a/src/b"]),
        ("*.{ts,tsx}", ["a.ts", "x/b.tsx"], ["a.tsxx", "a.{ts,tsx}"]),
        ("{a,b/{c,d}}.x", ["a.x", "b/c.x", "b/d.x"], ["c.x", "b.x"]),
        ("a{b", ["a{b"], ["ab"]),
        ("[a-c]?.txt", ["b1.txt", "cé.txt"], ["d1.txt", "b12.txt", "b/.txt"]),
        ("[!a-c]", ["d", "é"], ["a", "dd"]),
        ("[]x]", ["]", "x"], ["a"]),
        ("[[:digit:]]*", ["1a"], ["a1"]),
        (r"\*\[", ["*["], ["a["]),
        ("./a.py", ["a.py", "x/a.py"], ["b.py"]),
        ("été", ["été", "x/été"], ["ete"]),
        ("a\nb", ["a\nb"], ["a", "b"]),
    ],
)
def test_globs_mean_what_the_shell_means(glob: str, fitting: list[str], others: list[str]) -> None:
    fits = matcher(glob)
    assert [path for path in fitting if not fits(path)] == []
    assert [path for path in others if fits(path)] == []


@pytest.mark.parametrize("glob", ["[abc", "a\\", "{a,{b}", "[[:nope:]]", "x" * 1_001, "\ud800"])
def test_a_glob_that_is_none_is_told(glob: str) -> None:
    if glob == "{a,{b}":
        glob = "{a,{b}\\}"
    with pytest.raises(ToolFailed, match="cannot be used"):
        matcher(glob)


def test_a_glob_full_of_stars_is_quick() -> None:
    fits = matcher("*a" * 400 + "b")
    assert not fits("a" * 4_000)


def test_a_set_never_matches_a_slash() -> None:
    assert expression("a[/]b") != expression("a[!/]b")
    assert not matcher("a[.-0]b/*")("a/b/c")
    with pytest.raises(GlobError):
        expression("[")


def test_ignored_names_are_left_out_and_wanted_ones_come_back(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": "*.log\n!keep.log\nbuild/\n/only-top\n# note\n\\#kept\ndocs/*.html\n**/deep/x\ntrail  \n",
            "a.log": "",
            "keep.log": "",
            "build/x": "",
            "src/build/y": "",
            "src/build.txt": "",
            "only-top": "",
            "src/only-top": "",
            "#kept": "",
            "docs/a.html": "",
            "docs/sub/a.html": "",
            "p/deep/x": "",
            "trail": "",
            "sub/.gitignore": "!*.log\nlocal\n",
            "sub/a.log": "",
            "sub/local": "",
            "local": "",
            ".hidden": "",
            ".git/config": "",
        },
    )
    assert files(tmp_path) == [
        ".gitignore",
        ".hidden",
        "docs/sub/a.html",
        "keep.log",
        "local",
        "src/build.txt",
        "src/only-top",
        "sub/.gitignore",
        "sub/a.log",
    ]


def test_a_file_in_an_ignored_directory_cannot_come_back(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "out/\n!out/keep\n", "out/keep": "", "in": ""})
    assert files(tmp_path) == [".gitignore", "in"]


def test_the_repositorys_own_exclude_file_counts(tmp_path: Path) -> None:
    make(tmp_path, {".git/info/exclude": "private\n", "private": "", "public": ""})
    assert files(tmp_path) == ["public"]


def test_a_part_of_the_tree_heeds_the_rules_above_it(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.o\n", "a/.gitignore": "!keep.o\n", "a/b/x.o": "", "a/b/keep.o": "", "a/b/c": ""})
    assert files(tmp_path, "a/b") == ["a/b/c", "a/b/keep.o"]
    assert files(tmp_path, "./a/../a/b/") == ["a/b/c", "a/b/keep.o"]


def test_an_ignored_directory_can_be_named(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "build/\n", "build/log.txt": ""})
    assert files(tmp_path, "build") == ["build/log.txt"]


def test_line_ends_marks_and_broken_lines_of_an_ignore_file_are_taken_as_git_takes_them() -> None:
    rules = IgnoreFile.parse(b"\xef\xbb\xbfa\r\nb\\\n[c\nd\\ \n\xe9\n!\n/\n")
    assert rules.verdict(b"a", directory=False) is True
    assert rules.verdict(b"d ", directory=False) is True
    assert rules.verdict(b"\xe9", directory=False) is True
    assert all(rules.verdict(name, directory=True) is None for name in (b"b", b"[c", b"c", b"d", b"a\r", b"/"))


def test_an_ignore_file_that_is_a_link_is_not_heeded(tmp_path: Path) -> None:
    make(tmp_path, {"rules": "x\n", "x": ""})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert "x" in files(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#" * 60 + "\n" + ("# " * 30 + "\n") * (MAX_BYTES // 60) + "late\n", f"what comes after {MAX_BYTES:,} bytes"),
        ("early\n" + "x\n" * MAX_RULES + "late\n", "rules after the first 1,000"),
        (
            "early\n" + "l" * MAX_CHARACTERS + "*\nlat" + "[e]" * MAX_CHARACTERS + "\n",
            "2 rules of more than 200 characters",
        ),
    ],
)
def test_of_an_ignore_file_that_is_too_long_the_rest_is_dropped_and_told(tmp_path: Path, text: str, told: str) -> None:
    make(tmp_path, {"sub/early": "", "sub/late": "", "sub/.gitignore": text})
    walk = Walk(Workspace(tmp_path))
    found = [one.path for one in walk.entries()]
    assert "sub/late" in found and ("sub/early" in found) is not text.startswith("early")
    assert walk.notes == [f"Of sub/.gitignore, {told} were not applied."]


def test_thousands_of_rules_and_rules_full_of_stars_are_quick(tmp_path: Path) -> None:
    stars = "\n".join("*a" * count + "b" for count in range(1, 60))
    many = "\n".join(f"name{number}*.x" for number in range(900))
    make(tmp_path, {".gitignore": f"{stars}\n{many}\n!name7.x\n", "name9.x": "", "name7.x": "", "a" * 200: ""})
    assert files(tmp_path) == [".gitignore", "a" * 200, "name7.x"]


def test_links_are_seen_and_never_followed(tmp_path: Path) -> None:
    make(tmp_path, {"real/a": "", "b": ""})
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "up").symlink_to("..")
    found = [(one.path, one.kind) for one in Walk(Workspace(tmp_path)).entries()]
    assert found == [
        ("b", Kind.FILE),
        ("link", Kind.LINK),
        ("real", Kind.DIRECTORY),
        ("real/a", Kind.FILE),
        ("real/up", Kind.LINK),
    ]
    assert files(tmp_path, "link") == ["real/a"]


def test_pipes_are_seen_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / ".gitignore")
    assert [one.kind for one in Walk(Workspace(tmp_path)).entries()] == [Kind.OTHER, Kind.OTHER]


def test_entries_come_in_the_byte_order_of_their_paths(tmp_path: Path) -> None:
    names = ["a", "a b/x", "a-b/x", "a.b", "aa/x", "a0", "é/x", "Z/x", "a\nb", ".a/x"]
    make(tmp_path, dict.fromkeys(names, ""))
    assert files(tmp_path) == sorted(names, key=os.fsencode)


def test_a_walk_has_a_depth_and_a_limit_and_says_when_it_stopped(tmp_path: Path) -> None:
    make(tmp_path, {f"d{number}/x/y/z": "" for number in range(20)})
    assert [one.path for one in Walk(Workspace(tmp_path), depth=1).entries()] == sorted(f"d{n}" for n in range(20))
    walk = Walk(Workspace(tmp_path), limit=30)
    assert len(list(walk.entries())) <= 30
    assert walk.notes == ["Stopped after 30 names; name a smaller part of the workspace."]


def test_a_walk_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    make(tmp_path, {"a/b": "", "c/d": ""})
    stop = threading.Event()
    entries = Walk(Workspace(tmp_path), stop=stop).entries()
    assert next(entries).path == "a"
    stop.set()
    assert list(entries) == []


@pytest.mark.parametrize("by_components", [False, True])
@pytest.mark.parametrize("name", ["d" * 100, "d" * 20])
def test_a_tree_deeper_than_a_path_is_walked_as_far_as_paths_go(tmp_path: Path, name: str, by_components: bool) -> None:
    dig(tmp_path, name, 5_000 // len(name))
    walk = Walk(Workspace(tmp_path, by_components=by_components))
    assert len(list(walk.entries())) == 4_096 // (len(name) + 1) + 1
    assert walk.notes == ["1 directory could not be read."]


def test_without_openat2_a_walk_goes_down_as_many_levels_as_descriptors_allow(tmp_path: Path) -> None:
    dig(tmp_path, "d", MAX_DEPTH + 50)
    assert len(list(Walk(Workspace(tmp_path)).entries())) == MAX_DEPTH + 50
    walk = Walk(Workspace(tmp_path, by_components=True))
    assert len(list(walk.entries())) == MAX_DEPTH + 2
    assert walk.notes == ["1 directory could not be read."]


def dig(root: Path, name: str, levels: int) -> None:
    """Directories within each other, made one from the other because no path can be that long."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_where_a_walk_cannot_begin_is_told(tmp_path: Path) -> None:
    make(tmp_path, {".git/HEAD": "", "file": ""})
    (tmp_path / "out").symlink_to("/etc")
    for start, error in (("nope", PathMissing), ("file", PathError), ("../", PathDenied), ("out", PathDenied)):
        with pytest.raises(error):
            files(tmp_path, start)
    with pytest.raises(PathDenied, match="git's own"):
        files(tmp_path, ".git")


def test_names_with_hidden_characters_are_written_as_json() -> None:
    assert display_path("src/été.py") == "src/été.py"
    assert display_path("a\nb") == '"a\\nb"'
    assert display_path("a\u202eb") == '"a\\u202eb"'
    assert display_path("caf\udce9") == '"caf\\udce9"'
    assert display_path('"quoted"') == '"\\"quoted\\""'


def make(root: Path, tree: dict[str, str]) -> None:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


NAMES = ["a", "b", "foo", "bar.c", "x.o", "build", "src", "é", "a b", "[x]", "-d", "#h", "!n", "foo.txt", "t "]
PARTS = [
    *("*", "?", "a", "b", "foo", "bar", "build", "src", "/", "[a-c]", "[!a]", ".o", ".c", "x", "é", "\\*", "\\ ", " "),
    *("[[:alpha:]]", "[]x]", "*.", "[x", "\\", "-", "[a-", "{a,b}", "#", "\\#", "[/a]", "[+-9]", "/**/", "/**"),
]


def random_tree(root: Path, chance: random.Random, depth: int = 0) -> None:
    for name in chance.sample(NAMES, chance.randint(2, 6)):
        if depth < 3 and chance.random() < 0.5:
            (root / name).mkdir()
            random_tree(root / name, chance, depth + 1)
        else:
            (root / name).write_text("")
    if chance.random() < 0.5:
        lines = chance.choice(["\n", "\r\n"]).join(random_rule(chance) for _ in range(chance.randint(1, 6)))
        (root / ".gitignore").write_text(lines + chance.choice(["", "\n"]))


def random_rule(chance: random.Random) -> str:
    rule = "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 4)))
    lead = chance.choice(["", "", "", "!", "/", "**/", "!/"])
    return lead + rule + chance.choice(["", "", "", "/"])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_git_itself_lists_the_same_files(tmp_path: Path, seed: int) -> None:
    random_tree(tmp_path, random.Random(seed))
    quiet = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, env=quiet, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=tmp_path,
        env=quiet,
        check=True,
        capture_output=True,
    ).stdout
    assert [os.fsencode(path) for path in files(tmp_path)] == sorted(name for name in listed.split(b"\0") if name)
