"""File passages that tools showed, found again in their journaled results."""

from collections.abc import Mapping

import pytest

from drone.agent.ports.receipts import passages_shown
from mcc.contracts.fence import fenced
from mcc.rules.reads import Passage

PATCH = """\
The working files against what is staged:

 a.py | 3 ++-
 1 file changed, 2 insertions(+), 1 deletion(-)

diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -3,2 +3,3 @@ def f():
 same
--- a/looks like a head
+++ b/looks like one too
+new
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
\\ No newline at end of file"""


@pytest.mark.parametrize(
    ("tool", "arguments", "content", "found"),
    [
        (
            "read_file",
            {"paths": ["a", "b"]},
            "a, lines 3-4, 9 bytes\n3\tone\n4\t5\ttwo\n\nb: no such file\n",
            [Passage("a", 3, ("one", "5\ttwo"))],
        ),
        ("read_file", {"path": "a"}, "x = 1\ny", [Passage("a", 1, ("x = 1", "y"))]),
        ("read_file", {"path": "a", "start_line": 7}, "x = 1", [Passage("a", 7, ("x = 1",))]),
        ("read_file", {"path": "a"}, "a · lines 2-3 of 3 · 9 bytes\nx\ny", [Passage("a", 2, ("x", "y"))]),
        ("read_file", {}, "x = 1", []),
        ("read_file", {"path": "a"}, "a, empty (0 bytes)\n", []),
        ("read_file", {"path": "a.png"}, "a.png, image/png, 2 x 3 pixels, 1,070 bytes\n", []),
        (
            "search_text",
            {"pattern": "x"},
            '2 matching lines in 2 files\na.py\n3:x = "a.py"\n4-y\n--\n9:…x…\n"odd\\tname"\n1:x\n[Cut.]',
            [
                Passage("a.py", 3, ('x = "a.py"',)),
                Passage("a.py", 4, ("y",)),
                Passage("a.py", 9, ("x",)),
                Passage("odd\tname", 1, ("x",)),
            ],
        ),
        (
            "git_diff",
            {},
            PATCH,
            [
                Passage("a.py", 3, ("same", "++ b/looks like one too", "new")),
                Passage("a.py", 3, ("same", "-- a/looks like a head")),
                Passage("a.py", 0, ("same", "-- a/looks like a head", "++ b/looks like one too", "new")),
                Passage("old.py", 0, ()),
                Passage("old.py", 1, ("gone",)),
                Passage("old.py", 0, ("gone",)),
            ],
        ),
        ("git_show", {"ref": "HEAD", "path": "a"}, "a in commit 1, 3 bytes\nx\ny", [Passage("a", 1, ("x", "y"))]),
        ("git_diff", {"path": "a"}, "No difference: the working files.", []),
        ("list_files", {"path": "a"}, "a\nb", []),
    ],
)
def test_the_lines_are_found_again(
    tool: str, arguments: Mapping[str, object], content: str, found: list[Passage]
) -> None:
    assert list(passages_shown(tool, arguments, content)) == found
    assert list(passages_shown(tool, arguments, fenced(content, "1"))) == found
