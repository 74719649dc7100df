"""The diff of a file in UTF-16 says which lines were added and removed."""

import pytest

from drone.checkpoints.diff import file_diff

BOM = "\ufeff"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_compared_as_text_and_its_encoding_is_named(encoding: str) -> None:
    before, after = f"{BOM}one\r\ntwo\r\n".encode(encoding), f"{BOM}one\r\n2 \u20ac\r\nthree\r\n".encode(encoding)
    diff = file_diff(before, after, "a.txt")
    assert (diff.added, diff.removed) == (2, 1)
    assert diff.text.startswith(f"--- a/a.txt\t({encoding.upper()})\n+++ b/a.txt\t({encoding.upper()})\n@@ ")
    assert "-two\r\n+2 \u20ac\r\n+three\r\n" in diff.text
    made, gone = file_diff(None, after, "a.txt"), file_diff(after, None, "a.txt")
    assert (made.added, made.removed, gone.added, gone.removed) == (3, 0, 0, 3)


def test_another_encoding_of_the_same_text_and_what_is_no_text_is_told_as_binary() -> None:
    little, big = (f"{BOM}a\n".encode(encoding) for encoding in ("utf-16-le", "utf-16-be"))
    said = file_diff(little, big, "a").text
    assert said == "Binary files a/a\t(UTF-16-LE) and b/a\t(UTF-16-BE) differ\n"
    broken = b"\xff\xfe" + b"\x00\xd8" * 9
    assert file_diff(broken, little, "a").text.startswith("Binary files a/a and b/a\t(UTF-16-LE)")
    assert file_diff(b"a\0b", b"a", "a").text == "Binary files a/a and b/a differ\n"
    assert file_diff(b"\xff\xfe", b"x\n", "a").added == 1
