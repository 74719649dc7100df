"""Reader of shell words: quotes, escapes, and expansions that only a shell could resolve."""

import unicodedata
from dataclasses import dataclass, field

from mcc.permission.shell_text import DIGITS, NAMED, ShellText, Unclear, Undecided, unescaped

HOLE = "\ue000"
"""Stands in the text of a word for a piece that only a shell could expand."""

_SPECIAL = frozenset("@*#?-$!") | DIGITS
_NUMBERS = frozenset("#?$!")
"""Parameters whose values are numbers."""

_NEVER_EMPTY = frozenset({"pwd", "nproc", "whoami", "hostname", "arch"})
"""Commands that print something, as they stand in the text."""

_PATTERNS = frozenset("?*+@!")
"""Signs that begin an extended pattern, such as `@(a|b)`."""


@dataclass(slots=True)
class Word:
    """`text` is the word after quote removal, with `HOLE` for each unknown piece; `quoted`: part of it was quoted or
    escaped.

    `is_known` False: only a shell could expand it; then `is_one` tells whether to exactly one word, and `is_safe`
    whether the unknown pieces are without characters that mean something to a shell, as far as the variables that
    it `trusts` are. `fills`: an unknown piece is never empty. `from_process`: it names the output of a process
    substitution. `why` is a phrase that says why the command is not plain; it is empty for mere file name patterns.
    """

    text: str = ""
    quoted: bool = False
    is_known: bool = True
    is_one: bool = True
    is_safe: bool = True
    fills: bool = False
    from_process: bool = False
    trusts: set[str] = field(default_factory=set)
    why: str = ""

    def unknown(self, why: str = "", *, one: bool = False, safe: bool = False, fills: bool = False) -> None:
        self.is_known = False
        self.is_one = self.is_one and one
        self.is_safe = self.is_safe and safe
        self.fills = self.fills or fills
        self.why = self.why or why


class WordReader(ShellText):
    """Reads words; the parser of commands extends it."""

    def enter(self) -> None:
        """One bracket or substitution deeper. Raises `Unclear` where that is too deep."""
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def read_substitution(self) -> bool:
        """Read the commands of a substitution, including the closing bracket. Answers whether what they print has no
        characters that mean something to a shell."""
        raise NotImplementedError

    def read_nested(self, text: str) -> None:
        """Read commands from a nested text (backticks)."""
        raise NotImplementedError

    def calculated(self, text: str) -> None:
        """Note that the shell calculates with the text, literal or with holes."""
        raise NotImplementedError

    def evaluated(self, text: str) -> None:
        """Read the substitutions in a literal text that the shell evaluates."""
        raise NotImplementedError

    def prompted(self) -> None:
        """Note that the shell expands the value of a variable once more, as it does with a prompt."""
        raise NotImplementedError

    def set_here(self, name: str) -> None:
        """Note that an expansion sets the variable."""
        raise NotImplementedError

    def may_stand(self, text: str) -> None:
        """Note that the text may stand in place of a variable."""
        raise NotImplementedError

    def is_full_name(self, name: str) -> bool:
        """Whether the value of the variable is never empty."""
        raise NotImplementedError

    def is_safe_name(self, name: str) -> bool:
        """Whether the value of the variable has no characters that mean something to a shell."""
        raise NotImplementedError

    def word(self) -> Word:
        """The word that begins here. Raises `Unclear`."""
        word, parts = Word(), list[str]()
        opened = braced = False
        start = self.at
        while not self.at_end_of_word() or self.at_process():
            sign = self.peek()
            if sign in "'\"\\$`":
                self._quoted(sign, word, parts)
                continue
            if sign in "<>":
                self._process(word, parts)
                continue
            if sign in _PATTERNS and self.peek(1) == "(":
                self._pattern(word, parts)
                continue
            if sign in "*?" or (sign == "]" and opened):
                word.unknown()
            # Only at the start of a word is it a home directory; elsewhere it is a character like any other.
            if sign == "~" and self.at == start:
                word.unknown(one=True)
            opened = opened or sign == "["
            braced = braced or sign == "{"
            if braced and (sign == "," or self.starts("..")):
                word.unknown()
            self._literal(sign, word, parts)
            self.at += 1
        word.text = "".join(parts)
        if not word.quoted and not word.fills and not word.text.strip(HOLE):
            # Without quotes, an empty value is no word at all.
            word.is_one = word.is_known
        return word

    def _literal(self, one: str, word: Word, parts: list[str]) -> None:
        if one == HOLE:
            word.unknown("it substitutes", one=True, safe=True)
        # A person who is asked must see each character that they allow.
        elif not shows(one):
            word.why = "it has characters that do not show"
        parts.append(one)

    def _process(self, word: Word, parts: list[str]) -> None:
        self.at += 2
        self.read_substitution()
        word.unknown("it substitutes", one=True, fills=True)
        word.from_process = True
        parts.append(HOLE)

    def _pattern(self, word: Word, parts: list[str]) -> None:
        """Read an extended pattern with its alternatives."""
        word.unknown()
        self.at += 2
        depth = 1
        while depth:
            sign = self.peek()
            if not sign:
                raise Unclear("a bracket is not closed")
            if sign in "'\"\\$`":
                self._quoted(sign, word, parts)
            elif self.at_process():
                self._process(word, parts)
            else:
                depth += {"(": 1, ")": -1}.get(sign, 0)
                self.at += 1
        parts.append(HOLE)

    def _quoted(self, sign: str, word: Word, parts: list[str]) -> None:
        word.quoted = word.quoted or (sign != "$" and not self.starts("\\\n"))
        if sign == "'":
            for character in self._single():
                self._literal(character, word, parts)
        elif sign == '"':
            self.at += 1
            self._double(word, parts)
        elif sign == "\\":
            following = self.peek(1)
            if not following:
                self.at += 1
                raise Unclear("it ends with a backslash")
            if following != "\n":
                self._literal(following, word, parts)
            self.at += 2
        elif sign == "$":
            self._expanded(word, parts, within=False)
        else:
            self._backticks(word, parts, within=False)

    def _single(self) -> str:
        start = self.at + 1
        self.at = self.end_of_single(self.at)
        return self.since(start)[:-1]

    def _double(self, word: Word, parts: list[str]) -> None:
        """Read up to the closing double quote; the opening one was read."""
        while one := self.peek():
            if one == '"':
                self.at += 1
                return
            self._in_double(one, word, parts, '$`"\\\n')
        raise Unclear("a quote is not closed")

    def _in_double(self, one: str, word: Word, parts: list[str], escaped: str) -> None:
        """Read one piece of a text within double quotes, in which a backslash escapes the characters of `escaped`."""
        if one == "\\" and self.peek(1) and self.peek(1) in escaped:
            if self.peek(1) != "\n":
                self._literal(self.peek(1), word, parts)
            self.at += 2
        elif one == "$":
            self._expanded(word, parts, within=True)
        elif one == "`":
            self._backticks(word, parts, within=True)
        else:
            self._literal(one, word, parts)
            self.at += 1

    def text_to(self, end: int, escaped: str = "$`\\\n") -> Word:
        """The text up to the place `end`, read as if within double quotes. Raises `Unclear`."""
        word, parts = Word(), list[str]()
        while self.at < end:
            self._in_double(self.peek(), word, parts, escaped)
        if self.at != end:
            raise Unclear("brackets and quotes cross")
        word.text = "".join(parts)
        return word

    def _expanded(self, word: Word, parts: list[str], *, within: bool) -> None:
        """Read what a `$` begins; `within`: inside double quotes."""
        self.at += 1
        self.skip_joins()
        following = self.peek()
        self.at += 1
        if following == "(":
            self.enter()
            if (end := self._arithmetic()) is not None:
                word.unknown("it substitutes", one=True, safe=True, fills=True)
                self.at += 1
                self.calculation(end)
            else:
                start = self.at
                safe = self.read_substitution()
                fills = safe and self.since(start)[:-1] in _NEVER_EMPTY
                word.unknown("it substitutes", one=within or safe, safe=safe, fills=fills)
            self.leave()
        elif following == "{":
            self.enter()
            self._braced(word, within=within)
            self.leave()
        elif following == "'" and not within:
            self._escaped(word, parts)
            return
        elif following == '"' and not within:
            word.quoted = True
            # `$"…"` is replaced by a catalog of the locale, so the text that runs need not be the text that stands
            # here.
            word.why = word.why or "it has quotes that are translated"
            self._double(word, parts)
            return
        elif following == "[":
            word.unknown("it calculates", one=True, safe=True, fills=True)
            self.calculated(self.text_to(self.closing(self.at, "[", "]")).text)
            self.at += 1
        elif following in NAMED and following:
            self.at -= 1
            name = self.name()
            safe = self._trusted(name, word)
            word.unknown("it substitutes", one=within or safe, safe=safe, fills=self.is_full_name(name))
        elif following in _SPECIAL and following:
            number = following in _NUMBERS
            fills = number and following != "!"
            word.unknown("it substitutes", one=number or (within and following != "@"), safe=number, fills=fills)
        else:
            self.at -= 1
            parts.append("$")
            return
        parts.append(HOLE)

    def _trusted(self, name: str, word: Word) -> bool:
        safe = self.is_safe_name(name)
        if safe:
            word.trusts.add(name)
        return safe

    def _arithmetic(self) -> int | None:
        """The place of the first closing bracket if `((` opens a calculation; the reader stands at the second
        bracket. None where two commands in brackets stand there."""
        self.skip_joins()
        return self.end_of_calculation() if self.peek() == "(" else None

    def end_of_calculation(self) -> int | None:
        """As `_arithmetic`; the second bracket stands here."""
        end = self.closing(self.at + 1, "(", ")")
        after = end + 1
        while self.starts("\\\n", after):
            after += 2
        return end if self.starts(")", after) else None

    def calculation(self, end: int) -> None:
        """Read what is calculated, and the two brackets at the place `end`."""
        start = self.at
        found = self.text_to(end)
        self.calculated(found.text + " " + self.since(start))
        self.at = end + 1
        self.skip_joins()
        self.at += 1

    def _braced(self, word: Word, *, within: bool) -> None:
        """Read the rest of a `${…}`, including substitutions in it."""
        if self.peek() and self.peek() in " \t\n|(":
            raise Unclear("it substitutes what commands in braces print")
        start, inner, parts = self.at, Word(), list[str]()
        sign = self.peek() if self.peek() and self.peek() in "!#" and self.peek(1) != "}" else ""
        self.at += len(sign)
        name = self.name() or self.peek()
        self.at += 0 if name[:1] in NAMED or not name else 1
        if name == "}":
            raise Unclear("a substitution names nothing")
        after = self.at
        try:
            self._to_brace(inner, parts, within=within)
        except Unclear as unclear:
            # Shells disagree about quotes within `${…}`: where no end is found, another one may have found it earlier.
            raise Undecided(str(unclear)) from unclear
        operation, raw = self._text[after : self.at - 1], self.since(start)
        if operation.startswith(("=", ":=")):
            self.set_here(name)
        if operation.lstrip(":").startswith(("-", "=", "+")):
            self.may_stand("".join(parts).lstrip(":")[1:])
        if sign == "!" or operation.startswith("[") or (operation[:1] == ":" and operation[1:2] not in set("-=?+")):
            self.calculated("".join(parts) + " " + raw + " $")
        # `${name@P}` expands the value as a prompt, which runs the substitutions in it.
        if "@" in operation and operation.endswith("P"):
            self.prompted()
        if any(opener in "".join(parts) for opener in ("$(", "`")):
            self.evaluated("".join(parts))
        if sign == "#":
            word.unknown("it substitutes", one=True, safe=True, fills=True)
        else:
            safe = not operation and self._trusted(name, word)
            fills = not operation and self.is_full_name(name)
            word.unknown("it substitutes", one=safe or (within and "@" not in raw), safe=safe, fills=fills)

    def _to_brace(self, inner: Word, parts: list[str], *, within: bool) -> None:
        while sign := self.peek():
            if sign == "}":
                self.at += 1
                return
            if sign == "\\":
                parts.append(self.peek(1))
                self.at += 2
            elif sign == "'" and not within:
                parts.append(self._single())
            elif sign == '"':
                self.at += 1
                self._double(inner, parts)
            elif sign == "$":
                self._expanded(inner, parts, within=within)
            elif sign == "`":
                self._backticks(inner, parts, within=within)
            elif self.at_process() and not within:
                self._process(inner, parts)
            else:
                parts.append(sign)
                self.at += 1
        raise Unclear("a bracket is not closed")

    def _escaped(self, word: Word, parts: list[str]) -> None:
        """Read the rest of `$'…'`."""
        start = self.at
        while sign := self.peek():
            self.at += 2 if sign == "\\" else 1
            if sign == "'":
                break
        else:
            raise Unclear("a quote is not closed")
        word.quoted = True
        resolved = unescaped(self.since(start)[:-1])
        if resolved is None:
            word.unknown("it has quotes with escapes", one=True)
            parts.append(HOLE)
            return
        word.why = word.why or "it has quotes with escapes"
        for character in resolved:
            self._literal(character, word, parts)

    def _backticks(self, word: Word, parts: list[str], *, within: bool) -> None:
        word.unknown("it substitutes", one=within)
        parts.append(HOLE)
        self.at += 1
        inner: list[str] = []
        while sign := self.peek():
            if sign == "`":
                self.at += 1
                self.read_nested("".join(inner))
                return
            escapes = sign == "\\" and self.peek(1) in ("`", "\\", "$", '"' if within else "\\")
            inner.append(self.peek(1) if escapes else sign)
            self.at += 2 if escapes else 1
        raise Unclear("a quote is not closed")


def shows(one: str) -> bool:
    """Whether the character is visible as itself: no control, invisible, reordering or space-like character."""
    return " " <= one <= "~" or one in "\t\n" or unicodedata.category(one)[0] not in "CZ"
