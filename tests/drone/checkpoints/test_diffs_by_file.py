"""The diff of an order, made by a drone, is taken apart by file for people."""

from hypothesis import given
from hypothesis import strategies as st

from drone.checkpoints.diff import file_diff
from mcc.contracts.changes import ChangedFile
from mcc.contracts.unified_diff import DiffLine, marked, parts
from mcc.view.diffs import of_path, shown_lines, stat_lines

LINES = st.lists(
    st.sampled_from(
        ["--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@", "rename from a", "Binary files a/x and b/x differ", "x", "", "-", "+"]
    ),
    max_size=6,
).map(lambda lines: "\n".join(lines).encode())


@given(st.lists(st.tuples(LINES, LINES).filter(lambda both: both[0] != both[1]), min_size=1, max_size=4))
def test_whatever_stands_in_the_files_each_part_is_the_diff_of_one_file(contents: list[tuple[bytes, bytes]]) -> None:
    diffs = [file_diff(before, after, f"{number}.txt").text for number, (before, after) in enumerate(contents)]
    assert list(parts("".join(diffs))) == diffs


@given(LINES, LINES)
def test_added_and_removed_lines_are_counted_as_the_drone_counts_them(before: bytes, after: bytes) -> None:
    diff = file_diff(before, after, "a")
    kinds = [kind for kind, _ in marked(diff.text)]
    assert (kinds.count(DiffLine.ADDED), kinds.count(DiffLine.REMOVED)) == (diff.added, diff.removed)


FILES = (
    ChangedFile(path="src/a.py", change="modified", added=1, removed=1),
    ChangedFile.model_validate({"path": "src/new.py", "change": "renamed", "from": "old.py"}),
    ChangedFile(path="picture\x1b.png", change="added"),
    ChangedFile(path="z.txt", change="added", added=1),
)
DIFF = (
    file_diff(b"a\n", b"b\n", "src/a.py").text
    + "rename from old.py\nrename to src/new.py\n"
    + file_diff(None, b"\0", "picture\x1b.png").text
    + file_diff(None, "z\u202ez\x1b[2J\n".encode(), "z.txt").text
    + "[not all is shown: 9 files were changed]\n"
)


def test_a_path_means_a_file_or_all_below_it_and_a_renamed_file_by_either_name() -> None:
    assert of_path(DIFF, FILES, "src/a.py") == parts(DIFF)[0] == of_path(DIFF, FILES, "./src/a.py")
    assert of_path(DIFF, FILES, "src/") == "".join(parts(DIFF)[:2])
    assert of_path(DIFF, FILES, "old.py") == parts(DIFF)[1] == "rename from old.py\nrename to src/new.py\n"
    assert of_path(DIFF, FILES, "picture\x1b.png").startswith("Binary files /dev/null and b/picture")
    assert of_path(DIFF, FILES, "src/a") == "" and of_path(DIFF, FILES, ".") == "".join(parts(DIFF))


def test_nothing_invisible_reaches_a_terminal() -> None:
    shown = "\n".join(line for _, line in (*shown_lines(DIFF), *stat_lines(FILES)))
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "+z⟦U+202E⟧z⟦U+001B⟧[2J" in shown and "picture⟦U+001B⟧.png" in shown
    assert [style for style, line in shown_lines(DIFF) if line.startswith(("+b", "-a"))] == ["red", "green"]
    assert list(stat_lines(FILES))[-1][1] == "4 files, +2 −1 lines"
