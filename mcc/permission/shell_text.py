"""A shell text and the position in it: blanks, names, redirection signs, closing brackets, here-document lines."""

ENDS = frozenset(" \t\n;|&()<>")
NAMED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
DIGITS = frozenset("0123456789")
_SIGNS = ("&>>", "<<<", "<<-", "&>", ">>", "<<", ">&", "<&", ">|", "<>", ">", "<")
"""Redirections, the longest first."""

_DESCRIPTOR = 10
"""Most digits of a file descriptor."""


class Unclear(Exception):
    """The text cannot be parsed for certain; the message is a phrase that says why."""


class Undecided(Unclear):
    """A shell may pair the quotes and brackets in another way, so that it runs what seems to be without an end."""


class ShellText:
    """A text and the position in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self._text[self.at + ahead : self.at + ahead + 1]

    def since(self, start: int) -> str:
        return self._text[start : self.at]

    def joined_since(self, start: int) -> str:
        """What was read since `start`, with its lines joined where a backslash ends one."""
        return self.since(start).replace("\\\n", "")

    def skip_joins(self) -> None:
        """Skip backslashes that join lines; a shell sees none of them, even within a sign."""
        while self.starts("\\\n"):
            self.at += 2

    def starts(self, sign: str | tuple[str, ...], place: int | None = None) -> bool:
        return self._text.startswith(sign, self.at if place is None else place)

    def at_end_of_word(self) -> bool:
        following = self.peek()
        return not following or following in ENDS

    def skip_blanks(self) -> None:
        while (following := self.peek()) and (following in " \t" or self.starts("\\\n")):
            self.at += 1 if following in " \t" else 2

    @property
    def is_read(self) -> bool:
        """Whether only blanks are left."""
        return not self._text[self.at :].strip()

    def skip_line(self) -> None:
        end = self._text.find("\n", self.at)
        self.at = len(self._text) if end < 0 else end

    def name(self) -> str:
        """The name of a variable that begins here, "" for none."""
        start = self.at
        while (one := self.peek()) and (one in NAMED or (self.at > start and one in DIGITS)):
            self.at += 1
        return self.since(start)

    def at_keyword(self, *keywords: str) -> bool:
        """Whether one of the keywords stands here as a word of its own."""
        return any(self.starts(one) and (self.peek(len(one)) == "" or self.peek(len(one)) in ENDS) for one in keywords)

    def lines_until(self, mark: str, *, tabs: bool, joined: bool) -> str:
        """The lines before the line `mark`, which is read too; all lines where there is none. `tabs`: those at the
        start of a line do not count. `joined`: a backslash joins a line with the next one."""
        start, within = self.at, False
        while self.at < len(self._text):
            end = self._text.find("\n", self.at)
            end = len(self._text) if end < 0 else end
            line, before = self._text[self.at : end], self.at
            self.at = min(end + 1, len(self._text))
            continues = joined and end < len(self._text) and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            if continues and (line[:-1].lstrip("\t") if tabs else line[:-1]) in (mark, ""):
                self.at = before
                raise Unclear("the end of a here-document is joined with another line")
            if not within and (line.lstrip("\t") if tabs else line) == mark:
                return self._text[start:before]
            within = continues
        return self._text[start:]

    def at_redirection(self) -> bool:
        """Whether a redirection begins here, with or without a file descriptor."""
        place = self.at
        while self._text[place : place + 1] in DIGITS and place < self.at + _DESCRIPTOR:
            place += 1
        following = self._text[place : place + 1]
        return following in ("<", ">") or (place == self.at and self.starts("&>"))

    def redirection(self) -> str:
        while self.peek() in DIGITS:
            self.at += 1
        sign = next(one for one in _SIGNS if self.starts(one))
        self.at += len(sign)
        return sign

    def at_process(self) -> bool:
        """Whether a process substitution `<(…)` or `>(…)` begins here; it is a word that only a shell can expand."""
        return self.starts(("<(", ">("))

    def closing(self, start: int, opening: str, closing: str) -> int:
        """The place of the bracket that closes the one before `start`; quotes and substitutions are passed over.

        Raises `Unclear` where there is none.
        """
        place, open_now = start, [closing]
        while open_now:
            sign = self._text[place : place + 1]
            if not sign:
                raise Unclear("a bracket is not closed")
            if sign == open_now[-1]:
                open_now.pop()
            elif sign == "\\":
                place += 1
            elif self.starts("$(", place):
                open_now.append(")")
                place += 1
            elif sign == "`" or (sign == '"' and open_now[-1] != "`"):
                open_now.append(sign)
            elif sign == "'" and open_now[-1] not in '"`':
                place = self.end_of_single(place) - 1
            elif (sign == opening or sign == "(") and open_now[-1] not in '"`':
                open_now.append({"(": ")"}.get(sign, closing))
            place += 1
        return place - 1

    def end_of_single(self, start: int) -> int:
        """The place behind the quoted text that a single quote begins at `start`. Raises `Unclear`."""
        end = self._text.find("'", start + 1)
        if end < 0:
            self.at = len(self._text)
            raise Unclear("a quote is not closed")
        return end + 1


def is_assignment(raw: str) -> bool:
    """Whether a word, as it is written, is a variable assignment."""
    end = 0
    while end < len(raw) and (raw[end] in NAMED or (end and raw[end] in DIGITS)):
        end += 1
    indexed = raw.startswith("[", end) and ("]=" in raw or "]+=" in raw)
    return end > 0 and (raw.startswith(("=", "+="), end) or indexed)


_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}


def unescaped(text: str) -> str | None:
    """The value of a text between `$'` and `'`; None where shells differ about it."""
    parts: list[str] = []
    place = 0
    while place < len(text):
        sign, following = text[place], text[place + 1 : place + 2]
        if sign != "\\":
            parts.append(sign)
            place += 1
        elif following in _ESCAPES:
            parts.append(_ESCAPES[following])
            place += 2
        else:
            place += 2
            base, most = (16, _HEXADECIMAL[following]) if following in _HEXADECIMAL else (8, 3)
            place -= base == 8
            digits = _digits(text[place : place + most], base)
            value = int(digits, base) if digits else 0
            # Beyond ASCII the value depends on the locale, and a null ends the text in some shells.
            if not 0 < value < 0x80:
                return None
            parts.append(chr(value))
            place += len(digits)
    return "".join(parts)


def _digits(text: str, base: int) -> str:
    end = 0
    while end < len(text) and text[end] in "0123456789abcdefABCDEF"[: 8 if base == 8 else 22]:
        end += 1
    return text[:end]
