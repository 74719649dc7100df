"""apply_patch: parsing of unified diffs as models write them; no patch is applied in part."""

import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drone.checkpoints.diff import file_diff
from drone.tools.files.patch import applied, parsed
from drone.tools.files.text_files import TextFile, replaced
from drone.tools.frame.tool import ToolFailed
from tests.drone.tools.writing_bench import WritingBench

BEFORE = "one\ntwo\nthree\nfour\nfive\nsix\n"


def patched(patch: str, before: str = BEFORE) -> str:
    (part,) = parsed(patch)
    return applied(part, TextFile.of(before.encode(), "a")).text


NAMES = "--- a/a\n+++ b/a\n"


@pytest.mark.parametrize(
    ("hunks", "after"),
    [
        ("@@ -2,2 +2,2 @@\n two\n-three\n+THREE\n", "one\ntwo\nTHREE\nfour\nfive\nsix\n"),
        ("@@ -2,9 +2,7 @@\n two\n-three\n+THREE\n", "one\ntwo\nTHREE\nfour\nfive\nsix\n"),
        ("@@\n two\n-three\n+THREE\n", "one\ntwo\nTHREE\nfour\nfive\nsix\n"),
        ("@@ -40,2 +40,2 @@ def f():\n five\n-six\n+6\n", "one\ntwo\nthree\nfour\nfive\n6\n"),
        ("@@ -1 +0,0 @@\n-one\n@@ -6 +5,2 @@\n six\n+seven\n", "two\nthree\nfour\nfive\nsix\nseven\n"),
        ("@@ -6,0 +7 @@\n+seven\n\n\n", BEFORE + "seven\n"),
        ("@@ -6 +6 @@\n-six\n+six\n\\ No newline at end of file\n", BEFORE[:-1]),
    ],
)
def test_a_patch_is_applied_whatever_its_counts_say(hunks: str, after: str) -> None:
    assert patched(NAMES + hunks) == after


@pytest.mark.parametrize("name", ["x.py", "y.py.orig"])
def test_a_file_that_git_says_to_move_and_to_change_is_one_file(name: str) -> None:
    head = f"diff --git a/{name} b/y.py\nsimilarity index 90%\nrename from {name}\nrename to y.py\n"
    (part,) = parsed(f"{head}--- a/{name}\n+++ b/y.py\n@@ -1 +1 @@\n-one\n+1\n")
    assert (part.source, part.target, len(part.hunks)) == (name, "y.py", 1)


@pytest.mark.parametrize(
    ("before", "after", "source", "target"),
    [
        ("a/x.py", "b/x.py", "x.py", "x.py"),
        ("i/x.py", "w/x.py", "x.py", "x.py"),
        ("c/d/x.py", "i/d/x.py", "d/x.py", "d/x.py"),
        ("a/x.py", "a/x.py", "a/x.py", "a/x.py"),
        ("b/x.py", "b/x.py", "b/x.py", "b/x.py"),
        ("x.py", "b/x.py", "x.py", "x.py"),
        ("src/x.py", "src/x.py", "src/x.py", "src/x.py"),
        ("a/x.py", "b/y.py", "x.py", "y.py"),
        ("x.py.orig\t2026-01-01", "x.py\t2026-01-02", "x.py", "x.py"),
        ("a/x.py~", "b/x.py", "x.py", "x.py"),
        ("/dev/null", "b/x.py", None, "x.py"),
        ("a/x.py", "/dev/null", "x.py", None),
    ],
)
def test_the_names_of_a_head_are_read_without_prefixes_and_move_nothing_by_themselves(
    before: str, after: str, source: str | None, target: str | None
) -> None:
    (part,) = parsed(f"\ufeff--- {before}\n+++ {after}\n@@ -1 +1 @@\n-one\n+1\n")
    assert (part.source, part.target) == (source, target)


def test_a_line_that_begins_with_dashes_is_a_line() -> None:
    assert patched(NAMES + "@@ -1,2 +1,2 @@\n--- x\n+++ y\n z\n", "-- x\nz\n") == "++ y\nz\n"


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        ("", "names no file"),
        ("hello\n", "names no file"),
        ("*** Begin Patch\n*** Update File: a\n", "no unified diff"),
        ("@@ -1 +1 @@\n-one\n+1\n", "before any"),
        (NAMES, "has no lines"),
        (NAMES + "@@ -1 +1 @@\n one\n", "adds nothing"),
        (NAMES + "@@ -1 +1 @@\n-one\n+1\nrubbish\n", "belongs to nothing"),
        (NAMES + "Binary files a/a and b/a differ\n", "binary"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both sides"),
        (NAMES + "@@ -2 +2 @@\n-zwei\n+2\n", "does not fit"),
        (NAMES + "@@ -3,2 +3,2 @@\n three\n-vier\n+4\n", "at line 4 it expects 'vier', and there is 'four'"),
        (NAMES + "@@ -9,0 +9 @@\n+x\n", "behind line 9"),
    ],
)
def test_what_is_wrong_is_said(patch: str, word: str) -> None:
    with pytest.raises(ToolFailed) as problem:
        patched(patch)
    assert word in str(problem.value)


def test_a_part_that_fits_twice_is_refused() -> None:
    with pytest.raises(ToolFailed, match=r"fits in 2 places \(lines 1, 3\)"):
        patched(NAMES + "@@ -9 +9 @@\n-x\n+y\n", "x\na\nx\n")


async def test_several_files_are_made_changed_moved_and_deleted_at_once(tmp_path: Path) -> None:
    bench = WritingBench(tmp_path / "shop", tmp_path / "data")
    (bench.root / "a").write_text(BEFORE)
    (bench.root / "b").write_bytes(b"x\r\ny\r\n")
    (bench.root / "old name").write_text("stays\n")
    os.chmod(bench.root / "old name", 0o755)
    patch = (
        f"diff --git a/a b/a\nindex 1..2 100644\n{NAMES}@@ -1 +1 @@\n-one\n+ONE\n"
        "--- a/b\n+++ b/b\n@@ -2 +2,2 @@\n y\n+z\n"
        "--- /dev/null\n+++ b/new/c\n@@ -0,0 +1 @@\n+c\n"
        "diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n"
    )
    output = await bench.use("apply_patch", patch=patch)

    assert not output.is_error, output.content
    after = {
        "a": BEFORE.replace("one", "ONE").encode(),
        "b": b"x\r\ny\r\nz\r\n",
        "new/c": b"c\n",
        "new name": b"stays\n",
    }
    assert bench.tree() == after
    assert (bench.root / "new name").stat().st_mode & 0o777 == 0o755
    deleted = await bench.use("apply_patch", patch="--- a/new/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n")
    assert not deleted.is_error and "new/c" not in bench.tree()


async def test_one_part_that_does_not_fit_leaves_all_as_it_was(tmp_path: Path) -> None:
    bench = WritingBench(tmp_path / "shop", tmp_path / "data")
    (bench.root / "a").write_text(BEFORE)
    (bench.root / "b").write_text("b\n")
    good = NAMES + "@@ -1 +1 @@\n-one\n+ONE\n"
    for bad in (
        "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-wrong\n+B\n",
        "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+B\n",
        "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n",
        "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-\n",
        "--- /dev/null\n+++ b/.env\n@@ -0,0 +1 @@\n+X=1\n",
        "--- /dev/null\n+++ b/../outside\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/b/below\n@@ -0,0 +1 @@\n+x\n",
        NAMES + "@@ -2 +2 @@\n-two\n+TWO\n",
    ):
        output = await bench.use("apply_patch", patch=good + bad)
        assert output.is_error, bad
        assert bench.tree() == {"a": BEFORE.encode(), "b": b"b\n"}, bad


TEXTS = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=30).map("".join)
LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "--- x", "+++ y", "@@ z", "\\ d", "é"]), max_size=12)


@settings(max_examples=150)
@given(LINES, LINES, st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_a_diff_of_ours_applied_to_the_one_text_is_the_other(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool, line_end: str
) -> None:
    texts = [
        line_end.join(lines) + (line_end if ends and lines else "")
        for lines, ends in ((old, old_ends), (new, new_ends))
    ]
    before, after = (text.encode() for text in texts)
    assume(b"\n" in before or line_end == "\n")  # a text without lines does not say how they end
    diff = file_diff(before, after, "f")
    if before == after:
        assert diff.text == ""
        return
    (part,) = parsed(diff.text.replace("\r\n", "\n"))
    assert applied(part, TextFile.of(before, "f")).data == after


@settings(max_examples=150)
@given(st.text(alphabet="ab-+@ \n\\/d", max_size=200))
def test_any_text_is_a_patch_or_a_sentence(text: str) -> None:
    for patch in (text, NAMES + text, NAMES + "@@ -1 +1 @@\n" + text):
        try:
            for part in parsed(patch):
                applied(part, TextFile.of(b"a\nb\n", "a"))
        except ToolFailed as problem:
            assert str(problem)


@settings(max_examples=150)
@given(
    TEXTS,
    st.text(alphabet="ab\n", min_size=1, max_size=3),
    st.text("x\n", max_size=3),
)
def test_an_edit_replaces_what_it_names_and_nothing_else(text: str, old: str, new: str) -> None:
    try:
        after, count = replaced(TextFile(text), old, new, "f", everywhere=True)
    except ToolFailed:
        assert old == new or old not in text.replace("\r\n", "\n")
        return
    plain = text.replace("\r\n", "\n")
    assert after.text.replace("\r\n", "\n") == plain.replace(old, new) and count == plain.count(old)


async def test_a_patch_keeps_bytes_around_it_that_are_no_utf_8(tmp_path: Path) -> None:
    bench = WritingBench(tmp_path / "w", tmp_path / "data")
    (bench.root / "a").write_bytes(b"caf\xe9\none\n")
    await bench.use("read_file", path="a")
    patch = "--- a/a\n+++ b/a\n@@ -2,1 +2,1 @@\n-one\n+two\n"
    done = await bench.use("apply_patch", patch=patch)
    assert not done.is_error, done.content
    assert (bench.root / "a").read_bytes() == b"caf\xe9\ntwo\n"
    halves = await bench.use("apply_patch", patch=patch.replace("two", "\udce9").replace("-one", "-two"))
    assert halves.is_error and "half a character" in halves.content
    assert (bench.root / "a").read_bytes() == b"caf\xe9\ntwo\n"


TWO = "--- a/two\n+++ b/two\n@@ {} @@\n a\n-b\n+B\n c\n{}--- a/three\n+++ b/three\n@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n"


@pytest.mark.parametrize("counts", ["-1,9 +1,9", "-1,3 +1,3", "-1,4 +1,4", "-1,1 +1,1", "-1 +1", "-1,99 +1,2", ""])
@pytest.mark.parametrize(
    "between", ["", "\n", "diff --git a/three b/three\n", "diff -u a/three b/three\n", "Index: three\n"]
)
def test_the_head_of_the_next_file_ends_a_part_whatever_the_counts_say(counts: str, between: str) -> None:
    first, second = parsed(TWO.format(counts, between))
    assert applied(first, TextFile.of(b"a\nb\nc\n", "two")).text == "a\nB\nc\n"
    assert applied(second, TextFile.of(b"x\ny\nz\n", "three")).text == "x\nY\nz\n"


def test_files_that_are_made_and_deleted_end_a_part_too() -> None:
    made = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,9 @@\n+n\n--- a/old\n+++ /dev/null\n@@ -1,9 +0,0 @@\n-o\n"
    assert [(part.source, part.target) for part in parsed(made)] == [(None, "new"), ("old", None)]
    assert [part.hunks[0].lines for part in parsed(made)] == [("+n",), ("-o",)]


def test_comments_that_look_like_a_head_are_lines_where_the_counts_say_so() -> None:
    sql = "@@ -1,3 +1,3 @@\n a\n b\n--- old words\n+++ new words\n@@ -5 +5 @@\n-x\n+y\n"
    assert patched(NAMES + sql, "a\nb\n-- old words\nd\nx\n") == "a\nb\n++ new words\nd\ny\n"


PLAIN = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


@pytest.mark.parametrize(
    "around",
    [
        "```diff\n{}```",
        "```\n{}```\n",
        "~~~patch\n{}~~~\nThat is all.\n- It changes a line.\n",
        "Here it is:\n\n```diff\n{}```\n\nThat is all.",
        "{}```\nThat is all.",
        "````diff\n{}````",
        "```diff\n{}",
        "{}-- \n2.39.5\n",
    ],
)
def test_what_stands_around_a_patch_does_not_matter(around: str) -> None:
    assert patched(around.format(PLAIN)) == BEFORE.replace("two", "2")


def test_fences_that_belong_to_a_file_stay_and_patches_in_several_fences_are_one() -> None:
    fenced = "--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n ```sh\n-run\n+run it\n ```\n+```\n"
    assert patched(f"```diff\n{fenced}```", "```sh\nrun\n```\n") == "```sh\nrun it\n```\n```\n"
    other = PLAIN.replace("a/a", "a/c").replace("b/a", "b/c")
    assert [part.name for part in parsed(f"```diff\n{PLAIN}```\nand\n```diff\n{other}```\n")] == ["a", "c"]


def test_no_part_is_dropped_because_it_stands_outside_of_a_fence() -> None:
    other = PLAIN.replace("a/a", "a/c").replace("b/a", "b/c")
    with pytest.raises(ToolFailed, match="belongs to nothing"):
        parsed(f"```diff\n{PLAIN}```\n{other}")
