"""Words of others in what is written at a forge: they end no part of ours, hide nothing, and command nothing."""

from mcc.contracts.invisible import escape_invisible
from mcc.contracts.plain_text import strip_controls


def plain(text: str) -> str:
    """A text of others that can neither end our part nor hide in it."""
    return escape_invisible(strip_controls(text)).replace("<!--", "&lt;!--")


def quoted(text: str) -> str:
    """A quotation: what a forge takes for a command at the beginning of a line is none there."""
    return "\n".join(f"> {line}".rstrip() for line in plain(text.strip()).splitlines())
