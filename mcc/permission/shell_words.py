"""Reader of shell words: quotes, escapes, and expansions that only a shell could resolve."""

import unicodedata
from dataclasses import dataclass

_ENDS = frozenset(" \t\n;|&()<>")
_NAMED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_SPECIAL = frozenset("@*#?-$!") | _DIGITS
_SIGNS = ("&>>", "<<<", "<<-", "&>", ">>", "<<", ">&", "<&", ">|", "<>", ">", "<")
"""Redirections, the longest first."""


NESTED = 20
"""Deepest nesting of brackets and substitutions."""


class Unclear(Exception):
    """The text cannot be parsed for certain; the message is a phrase that says why."""


@dataclass(slots=True)
class Word:
    """`text` is the word after quote removal, as far as known; `quoted`: part of it was quoted or escaped.

    `is_known` False: only a shell could expand it, possibly to several words. `why` is a phrase that says why the
    command is not plain; it is empty for mere file name patterns.
    """

    text: str = ""
    quoted: bool = False
    is_known: bool = True
    why: str = ""

    def unknown(self, why: str = "") -> None:
        self.is_known = False
        self.why = self.why or why


class Reader:
    """A text and the position in it; the parser of commands extends it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.at = 0

    def read_substitution(self) -> None:
        """Read the commands of a substitution, including the closing bracket."""
        raise NotImplementedError

    def read_nested(self, text: str) -> None:
        """Read commands from a nested text (backticks)."""
        raise NotImplementedError

    def peek(self, ahead: int = 0) -> str:
        return self._text[self.at + ahead : self.at + ahead + 1]

    def since(self, start: int) -> str:
        return self._text[start : self.at]

    def at_end_of_word(self) -> bool:
        following = self.peek()
        return not following or following in _ENDS

    def skip_blanks(self) -> None:
        while (following := self.peek()) and (following in " \t" or self._text.startswith("\\\n", self.at)):
            self.at += 1 if following in " \t" else 2

    @property
    def is_read(self) -> bool:
        """Whether only blanks are left."""
        return not self._text[self.at :].strip()

    def skip_line(self) -> None:
        end = self._text.find("\n", self.at)
        self.at = len(self._text) if end < 0 else end

    def lines_until(self, mark: str, tabs: bool) -> str:
        """The lines before the line `mark`, which is read too; all lines where there is none."""
        start = self.at
        while self.at < len(self._text):
            end = self._text.find("\n", self.at)
            end = len(self._text) if end < 0 else end
            line, before = self._text[self.at : end], self.at
            self.at = min(end + 1, len(self._text))
            if (line.lstrip("\t") if tabs else line) == mark:
                return self._text[start:before]
        return self._text[start:]

    def at_redirection(self) -> bool:
        """Whether a redirection begins here, with or without a file descriptor."""
        place = self.at
        while self._text[place : place + 1] in _DIGITS and place < self.at + 10:
            place += 1
        following = self._text[place : place + 1]
        return following in ("<", ">") or (place == self.at and self._text.startswith("&>", place))

    def redirection(self) -> str:
        while self.peek() in _DIGITS:
            self.at += 1
        sign = next(one for one in _SIGNS if self._text.startswith(one, self.at))
        self.at += len(sign)
        return sign

    def at_process(self) -> bool:
        """Whether a process substitution `<(…)` or `>(…)` begins here; it is a word that only a shell can expand."""
        return self._text.startswith(("<(", ">("), self.at)

    def is_assignment(self, start: int) -> bool:
        """Whether the text read since `start` is a variable assignment."""
        end = start
        while self._text[end : end + 1] in _NAMED or (end > start and self._text[end : end + 1] in _DIGITS):
            end += 1
        return start < end < self.at and self._text.startswith(("=", "+=", "["), end)

    def word(self) -> Word:
        """The word that begins here. Raises `Unclear`."""
        word, parts = Word(), list[str]()
        opened = braced = False
        start = self.at
        while not self.at_end_of_word():
            one = self.peek()
            if one in "'\"\\$`":
                self._quoted(one, word, parts)
                continue
            if one in "*?" or (one == "]" and opened) or (one == "~" and self.at == start):
                word.unknown()
            opened = opened or one == "["
            braced = braced or one == "{"
            if braced and (one == "," or self._text.startswith("..", self.at)):
                word.unknown()
            if not _shows(one):
                word.why = "it has characters that do not show"
            parts.append(one)
            self.at += 1
        word.text = "".join(parts)
        return word

    def _quoted(self, sign: str, word: Word, parts: list[str]) -> None:
        word.quoted = word.quoted or sign != "$"
        if sign == "'":
            parts.append(self._single())
        elif sign == '"':
            self.at += 1
            self._double(word, parts)
        elif sign == "\\":
            following = self.peek(1)
            if not following:
                self.at += 1
                raise Unclear("it ends with a backslash")
            parts.append("" if following == "\n" else following)
            self.at += 2
        elif sign == "$":
            self._expanded(word, parts, within=False)
        else:
            self._backticks(word)

    def _single(self) -> str:
        end = self._text.find("'", self.at + 1)
        if end < 0:
            self.at = len(self._text)
            raise Unclear("a quote is not closed")
        found = self._text[self.at + 1 : end]
        self.at = end + 1
        return found

    def _double(self, word: Word, parts: list[str]) -> None:
        """Read up to the closing double quote; the opening one was read."""
        while one := self.peek():
            if one == '"':
                self.at += 1
                return
            if one == "\\" and self.peek(1) in ("$", "`", '"', "\\", "\n"):
                parts.append(self.peek(1).replace("\n", ""))
                self.at += 2
            elif one == "$":
                self._expanded(word, parts, within=True)
            elif one == "`":
                self._backticks(word)
            else:
                if not _shows(one):
                    word.why = "it has characters that do not show"
                parts.append(one)
                self.at += 1
        raise Unclear("a quote is not closed")

    def _expanded(self, word: Word, parts: list[str], *, within: bool) -> None:
        """Read what a `$` begins; `within`: inside double quotes."""
        following = self.peek(1)
        self.at += 2
        if following and following in "({":
            self._depth += 1
            if self._depth > NESTED:
                raise Unclear("brackets stand within brackets too often")
        if following == "(":
            word.unknown("it substitutes")
            self.read_substitution()
            self._depth -= 1
        elif following == "{":
            word.unknown("it substitutes")
            self._braced(within=within)
            self._depth -= 1
        elif following == "'" and not within:
            word.unknown("it has quotes with escapes")
            self._escaped()
        elif following == '"' and not within:
            word.unknown("it has quotes that are translated")
            self._double(Word(), [])
        elif following == "[":
            raise Unclear("it calculates")
        elif following in _NAMED and following:
            word.unknown("it substitutes")
            while (one := self.peek()) and (one in _NAMED or one in _DIGITS):
                self.at += 1
        elif following in _SPECIAL and following:
            word.unknown("it substitutes")
        else:
            self.at -= 1
            parts.append("$")

    def _braced(self, *, within: bool) -> None:
        """Read the rest of a `${…}`, including substitutions in it."""
        inner = Word()
        while one := self.peek():
            if one == "}":
                self.at += 1
                return
            if one == "\\":
                self.at += 2
            elif one == "'" and not within:
                self._single()
            elif one == '"':
                self.at += 1
                self._double(inner, [])
            elif one == "$":
                self._expanded(inner, [], within=within)
            elif one == "`":
                self._backticks(inner)
            else:
                self.at += 1
        raise Unclear("a bracket is not closed")

    def _escaped(self) -> None:
        """Read the rest of `$'…'`."""
        while one := self.peek():
            self.at += 2 if one == "\\" else 1
            if one == "'":
                return
        raise Unclear("a quote is not closed")

    def _backticks(self, word: Word) -> None:
        word.unknown("it substitutes")
        self.at += 1
        inner: list[str] = []
        while one := self.peek():
            if one == "`":
                self.at += 1
                self.read_nested("".join(inner))
                return
            escapes = one == "\\" and self.peek(1) in ("`", "\\", "$")
            inner.append(self.peek(1) if escapes else one)
            self.at += 2 if escapes else 1
        raise Unclear("a quote is not closed")


def _shows(one: str) -> bool:
    """Whether the character is visible as itself: no control, invisible, reordering or space-like character."""
    return " " <= one <= "~" or one in "\t\n" or unicodedata.category(one)[0] not in "CZ"
