"""Words of others in what is written at a forge: they end no part of ours, hide nothing, and command nothing."""

from collections.abc import Callable

from mcc.contracts.invisible import escape_invisible, escape_on_one_line
from mcc.contracts.plain_text import cut, strip_controls


def in_line(text: str) -> str:
    """A text of others within a line of ours: it neither ends our part, nor hides in it, nor begins a line, where
    forges look for commands."""
    return _unmarked(escape_on_one_line(strip_controls(text)))


def quoted(text: str) -> str:
    """A quotation: what a forge takes for a command at the beginning of a line is none there."""
    shown = _unmarked(escape_invisible(strip_controls(text.strip())))
    return "\n".join(f"> {line}".rstrip() for line in shown.splitlines())


def beginning(text: str, write: Callable[[str], str], most: int) -> str:
    """As much of the beginning of `text`, in whole words, as has at most so many characters once it is written."""
    kept = cut(text, max(most, 0))
    while kept and len(written := write(kept)) > most:
        kept = cut(kept, min(len(kept) * most // len(written), len(kept) - 1))
    return write(kept)


def _unmarked(text: str) -> str:
    return text.replace("<!--", "&lt;!--")
