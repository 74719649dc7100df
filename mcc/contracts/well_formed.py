"""JSON that every strict reader takes: lone surrogates, which MCC keeps exactly, become U+FFFD at its edges."""

_ESCAPE = len(r"\ud800")


class WellFormed:
    """Replaces lone surrogates, which no strict reader of JSON takes, in JSON that comes in pieces; see `well_formed`.

    A record keeps such a text exactly (docs/decisions/05). This is for the edges at which others read it.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """The next piece; the end of it may be held back until it is known how an escape goes on."""
        data = self._held + piece
        end = len(data) if last else _end_of_whole_escapes(data)
        self._held = data[end:]
        return well_formed(data[:end])


def well_formed(made: bytes) -> bytes:
    """JSON of the same length with U+FFFD for each escape of a surrogate that is no half of a pair."""
    if b"\\ud" not in made and b"\\uD" not in made:
        return made
    corrected, at = bytearray(made), 0
    while (slash := made.find(b"\\", at)) >= 0:
        code = _escaped_unit(made, slash)
        at = slash + 2
        if code is None or not 0xD800 <= code <= 0xDFFF:
            continue
        at = slash + _ESCAPE
        following = _escaped_unit(made, at)
        if code < 0xDC00 and following is not None and 0xDC00 <= following <= 0xDFFF:
            at += _ESCAPE
        else:
            corrected[slash:at] = b"\\ufffd"
    return bytes(corrected)


def _escaped_unit(made: bytes, at: int) -> int | None:
    """The UTF-16 unit of the escape that begins here; None where none does."""
    digits = made[at + 2 : at + _ESCAPE]
    if made[at : at + 2] != b"\\u" or len(digits) < 4:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def _end_of_whole_escapes(data: bytes) -> int:
    """Where the last escapes begin that the next piece may continue; a pair of them counts as one."""
    end = data.find(b"\\", max(0, len(data) - 2 * _ESCAPE))
    while end > 0:
        begins = end
        while begins > 0 and data[begins - 1 : begins] == b"\\":
            begins -= 1
        if data[max(0, begins - _ESCAPE) : begins].lower().startswith(b"\\ud"):
            begins -= _ESCAPE
        if begins == end:
            break
        end = begins
    return len(data) if end < 0 else end
