"""A review as the message that its agent reads: each comment below the lines that it is about."""

from collections.abc import Sequence

from mcc.contracts.invisible import escape_on_one_line
from mcc.contracts.reading import LineComment, NewReview
from mcc.contracts.unified_diff import DiffHunk
from mcc.reading.file_changes import lines_between

QUOTED_LINES = 20
MESSAGE_CHARACTERS = 20_000


class BadReview(ValueError):
    """The message says what cannot be sent; `field` where in the review it stands."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def check_places(comments: Sequence[LineComment]) -> None:
    """Raises `BadReview` for a comment that names no place, or two, or ends before it begins."""
    for number, comment in enumerate(comments):
        if (comment.path is None) == (comment.call_id is None):
            raise BadReview(f"comments.{number}.path", "a comment names either a path or a call_id.")
        if comment.end_line is not None and comment.end_line < comment.line:
            raise BadReview(f"comments.{number}.end_line", "the last line comes after the first.")


def message_of(review: NewReview, commented: Sequence[tuple[str, Sequence[DiffHunk]]]) -> str:
    """The message; `commented`: of each comment the path and what changed there. Raises `BadReview`."""
    parts: list[str] = []
    for number, (comment, (path, made)) in enumerate(zip(review.comments, commented, strict=True)):
        end = comment.end_line or comment.line
        lines = lines_between(made, comment.side, comment.line, end)
        where = f"{comment.line}-{end}" if end > comment.line else f"{comment.line}"
        if lines is None:
            message = f"the diff of {escape_on_one_line(path)} does not show line {where} of the {comment.side} file."
            raise BadReview(f"comments.{number}.line", message)
        quoted = [f"> {line.sign}{line.text}" for line in lines[:QUOTED_LINES]]
        more = [f"> [{len(lines) - QUOTED_LINES} more lines]"] if len(lines) > QUOTED_LINES else []
        head = f"{escape_on_one_line(path)}:{where} ({comment.side})"
        parts.append("\n".join((head, *quoted, *more, "", comment.text.strip())))
    if (note := (review.note or "").strip()) or not parts:
        if not note:
            raise BadReview("comments", "a review has a comment or a note.")
        parts.append(note)
    message = "\n\n".join(parts)
    if len(message) > MESSAGE_CHARACTERS:
        problem = f"with the quoted lines this is {len(message):,} characters; at most {MESSAGE_CHARACTERS:,} are read."
        raise BadReview("comments", problem)
    return message
