"""Line ends of a unified diff: where all lines of a file end with CR LF, its head says so, and the lines do not."""

from collections.abc import Sequence

CRLF = "CRLF"
_SIGNS = frozenset("+- \\")


def crlf_in_heads(diff: str) -> str:
    """A unified diff, of git or of ours, with `(CRLF)` in the head of each file whose lines in it all end with CR LF;
    those lines are without the CR then. All else, and all from the first part on that is no diff, stays as it is."""
    if "\r\n" not in diff:
        return diff
    lines, at = diff.split("\n"), 0
    while at < len(lines) - 1:
        if not (lines[at].startswith("--- ") and lines[at + 1].startswith("+++ ")):
            at += 1
            continue
        body, end = _body(lines, at + 2)
        if end is None:
            break
        if _is_crlf(lines, body):
            for line in body:
                lines[line] = lines[line].removesuffix("\r")
            for head in (at, at + 1):
                lines[head] += "" if lines[head].endswith(" /dev/null") else f"\t({CRLF})"
        at = end
    return "\n".join(lines)


def _is_crlf(lines: Sequence[str], body: Sequence[int]) -> bool:
    # The last line of a file may have no end at all, of which the line after it tells.
    ended = [lines[at] for at in body if not lines[at + 1 : at + 2] or not lines[at + 1].startswith("\\")]
    returns = sum(lines[at].count("\r") for at in body)
    return bool(ended) and returns == len(ended) and all(line.endswith("\r") for line in ended)


def _body(lines: Sequence[str], at: int) -> tuple[Sequence[int], int | None]:
    """Where the lines of a file's hunks are, which begin at `at`, and where they are over; None: they are no hunks.

    They are counted as the heads of the hunks say, since a line of a file can look like a head.
    """
    body: list[int] = []
    while at < len(lines) and (left := hunk_counts(lines[at])) is not None:
        at += 1
        while left != [0, 0]:
            sign = lines[at][:1] if at < len(lines) else ""
            if sign not in _SIGNS:
                return (), None
            if sign != "\\":
                left = [left[0] - (sign != "+"), left[1] - (sign != "-")]
                body.append(at)
            at += 1
        at += lines[at : at + 1] != [] and lines[at].startswith("\\")
    return body, at


def hunk_counts(line: str) -> list[int] | None:
    """How many lines of the old and the new file follow this head of a hunk; None where it is none."""
    words = line.split(" ", 4)
    if len(words) < 4 or words[0] != "@@" or words[1][:1] != "-" or words[2][:1] != "+":
        return None
    counts = [word.partition(",")[2] or "1" for word in words[1:3]]
    if not all(count.isascii() and count.isdecimal() and len(count) < 10 for count in counts):
        return None
    return [int(count) for count in counts]
