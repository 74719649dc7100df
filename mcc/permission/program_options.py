"""Options of one command, taken apart by the table of its program."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mcc.permission.shell_programs import ShellProgram
from mcc.permission.shell_words import HOLE, Word


@dataclass(slots=True)
class ProgramOptions:
    """`seen` are the options by letter or long name, with their values; `rest` the words after them. `is_doubtful`: a
    word that only a shell could expand was taken for the first of those, and may be an option."""

    seen: dict[str, list[Word]] = field(default_factory=dict)
    rest: Sequence[Word] = ()
    is_doubtful: bool = False

    def values(self, names: Collection[str]) -> list[Word]:
        return [word for name in names for word in self.seen.get(name, ())]


def options_of(words: Sequence[Word], program: ShellProgram, *, plus: bool = False) -> ProgramOptions | None:
    """The options after the first word; None where one is not in the table, or comes from elsewhere.

    `plus`: options may begin with a plus sign too, and long ones with a single dash, as in shells.
    """
    return _Taking(words, program, plus).taken()


class _Taking:
    def __init__(self, words: Sequence[Word], program: ShellProgram, plus: bool) -> None:
        self._words = words
        self._program = program
        self._plus = plus
        self._at = 1
        self._options = ProgramOptions()
        self._operands: list[Word] = []

    def taken(self) -> ProgramOptions | None:
        options, program = self._options, self._program
        while self._at < len(self._words):
            word = self._words[self._at]
            if not word.is_known and (not word.is_one or word.text.startswith(HOLE)):
                # A word that may be several, or none, ends what is known: operands may stand in it as well as options.
                if not word.is_one:
                    if program.anywhere or not self._operands:
                        self._operands.append(word)
                    break
                options.is_doubtful = True
            text = word.text
            if text == "--" or (self._plus and text == "-"):
                self._at += 1
                break
            if len(text) > 1 and text[0] in ("-+" if self._plus else "-"):
                self._at += 1
                if not self._option(word):
                    return None
            elif text == "-" and program.assigns:
                self._at += 1
            elif program.anywhere:
                self._operands.append(word)
                self._at += 1
            else:
                break
        options.rest = [*self._operands, *self._words[self._at :]]
        return options

    def _option(self, word: Word) -> bool:
        """Take one word with options. Answers whether all are known."""
        text = word.text
        if self._program.numbers and text.lstrip("-+").isdecimal():
            return True
        if text.startswith("--"):
            return self._long(word, text[2:])
        # bash reads `-posix` as the long option only when it is written in full; anything shorter is a row of letters.
        if self._plus and text[0] == "-" and len(text) > 2 and self._program.long_option(text[1:])[0] != text[1:]:
            return self._letters(word)
        if self._plus and text[0] == "-" and len(text) > 2 and self._program.long_option(text[1:])[1] != "!":
            return self._long(word, text[1:])
        return self._letters(word)

    def _long(self, word: Word, text: str) -> bool:
        name, has_value, value = text.partition("=")
        name, arity = self._program.long_option(name)
        # The table marks options with "!" that change the meaning of all the rest: they count as not known.
        if arity == "!" or HOLE in name or (has_value and (arity == "" or self._plus)):
            return False
        if has_value:
            return self._see(name, _part(word, value))
        return self._see(name, self._next() if arity == "=" else Word())

    def _letters(self, word: Word) -> bool:
        letters = word.text[1:]
        for place, letter in enumerate(letters):
            arity = self._program.arity(letter)
            rest = letters[place + 1 :]
            if arity == "!":
                return False
            if self._plus and arity == "=":
                # The values of a shell's options follow in words of their own.
                if not self._see(letter, self._next()):
                    return False
            elif arity:
                return self._see(letter, _part(word, rest) if rest or arity == "?" else self._next())
            else:
                self._see(letter, Word())
        return True

    def _next(self) -> Word | None:
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else None

    def _see(self, name: str, value: Word | None) -> bool:
        if value is None:
            return True
        self._options.seen.setdefault(name, []).append(value)
        return value.is_one


def _part(word: Word, text: str) -> Word:
    known = HOLE not in text
    return Word(text, word.quoted, known, known or word.is_one, known or word.is_safe, word.from_process)
