"""The line ends of a diff are told once where all of a file's are alike, and line by line where they are not."""

import pytest

from mcc.contracts.line_ends import crlf_in_heads

HEAD = "--- a/f\n+++ b/f\n"


@pytest.mark.parametrize(
    ("diff", "shown"),
    [
        (
            f"{HEAD}@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n",
            "--- a/f\t(CRLF)\n+++ b/f\t(CRLF)\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
        ),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\r\n", "--- /dev/null\n+++ b/f\t(CRLF)\n@@ -0,0 +1 @@\n+a\n"),
        (
            f"{HEAD}@@ -1 +1,2 @@\n a\r\n+b\n\\ No newline at end of file\n",
            "--- a/f\t(CRLF)\n+++ b/f\t(CRLF)\n@@ -1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n",
        ),
    ],
)
def test_a_file_of_crlf_lines_says_so_in_its_head(diff: str, shown: str) -> None:
    assert crlf_in_heads(diff) == shown


@pytest.mark.parametrize(
    "diff",
    [
        f"{HEAD}@@ -1 +1 @@\n-a\r\n+a\n",
        f"{HEAD}@@ -1 +1 @@\n-a\r\n+a\rb\r\n",
        f"{HEAD}@@ -1 +1 @@\n-a\r\n+b\r\r\n",
        f"{HEAD}@@ -1 +1 @@\n-a\r\n+b\r\n\\ No newline at end of file\n",
        f"{HEAD}@@ -1,9 +1 @@\n-a\r\n+b\r\n",
        f"{HEAD}@@ -1,x +1 @@\n-a\r\n+b\r\n",
        "text\r\n",
    ],
)
def test_all_else_is_left_to_be_seen_line_by_line(diff: str) -> None:
    assert crlf_in_heads(diff) == diff


def test_a_line_that_looks_like_a_head_is_a_line() -> None:
    mixed = f"{HEAD}@@ -1 +1 @@\n--- x\n+++ y\n@@ -9 +9 @@\n-a\r\n+b\r\n"
    assert crlf_in_heads(mixed) == mixed


def test_each_file_of_a_diff_is_told_by_itself() -> None:
    git = "diff --git a/f b/f\nindex 1..2 100644\n"
    lf, crlf = f"{git}{HEAD}@@ -1 +1 @@\n-a\n+b\n", f"{git}{HEAD}@@ -1 +1 @@\n-a\r\n+b\r\n"
    shown = f"{git}--- a/f\t(CRLF)\n+++ b/f\t(CRLF)\n@@ -1 +1 @@\n-a\n+b\n"
    assert crlf_in_heads(lf + crlf + lf) == lf + shown + lf
