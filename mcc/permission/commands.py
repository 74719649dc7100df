"""Parser of shell commands: splits a command into simple commands and their words, and marks what is uncertain.

It reads the common syntax of sh and bash in one pass, and expands or runs nothing: a word that only a shell could
expand is unknown, and so are the words after it. A command that cannot be read for certain is not plain, so that no
rule allows it; commands that it may contain are listed too, so that rules can deny it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mcc.permission.shell_words import NESTED, Reader, Unclear, Word

MOST_CHARACTERS = 20_000
MOST_PARTS = 50
"""A longer text, or one with more simple commands, is not plain."""

MOST_JUDGED = 200
"""Most different simple commands that are listed; the rest counts as one unknown command."""

LEVELS = 4
"""Deepest nesting of commands in the text of commands (`sh -c '…'`, `eval`, backticks)."""

REPEATED = 2
"""Bound on nested text, as a multiple of the command's length: inner texts are read again."""

_KEYWORDS = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "while",
        "until",
        "for",
        "case",
        "esac",
        "select",
        "function",
        "coproc",
        "time",
        "[[",
    }
)
_NAMING = frozenset({"function", "coproc"})
"""Keywords that may be followed by a name and then a command."""

_MARKS = frozenset("!{}")
_RUN_OTHERS = frozenset(
    {
        "env",
        "command",
        "builtin",
        "exec",
        "nohup",
        "nice",
        "ionice",
        "timeout",
        "stdbuf",
        "setsid",
        "sudo",
        "doas",
        "su",
        "xargs",
        "watch",
        "chroot",
        "unshare",
        "nsenter",
        "strace",
        "ltrace",
        "flock",
        "parallel",
        "busybox",
        "script",
        "ssh",
        "setarch",
        "chrt",
        "taskset",
        "prlimit",
        "setpriv",
        "runuser",
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_READ_ON = frozenset({"eval", "source", ".", "trap", "alias"})
_RENAME = frozenset({"alias", "hash", "enable"})
"""Builtins that change the meaning of later words, so that nothing is known about those."""

_EVALUATE = frozenset(
    {"test", "[", "printf", "read", "unset", "let", "declare", "typeset", "local", "export", "readonly"}
)
"""Builtins that run a substitution in the index of a name in their arguments, even if quoted: `test -v 'a[$(b)]'`."""

_EXECUTE = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_TAKE_TEXT = _SHELLS | _READ_ON
_SUFFIXES = 50
"""Most places in an argument list at which an inner command is assumed to begin."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, with quotes and escapes resolved.

    `whole` False: only the first words are known. `plain` False: it does, or may do, more than the words say; `why` is
    a phrase that says what.
    """

    argv: tuple[str, ...] = ()
    whole: bool = True
    plain: bool = True
    why: str = ""


def commands_in(text: str) -> tuple[Command, ...]:
    """The simple commands in a text, in order; those in substitutions come before the command that contains them.

    Takes linear time. Never raises.
    """
    if len(text) > MOST_CHARACTERS:
        return (Command((), False, False, f"it is longer than {MOST_CHARACTERS:,} characters"),)
    found = _NestedReader(len(text) * REPEATED + MOST_PARTS).read(text, 0)
    if len(found) > MOST_PARTS:
        found = [replace(one, plain=False, why=f"it is more than {MOST_PARTS} commands") for one in found]
    different = tuple(dict.fromkeys(found))
    if len(different) > MOST_JUDGED:
        return (*different[:MOST_JUDGED], Command((), False, False, f"it is more than {MOST_JUDGED} commands"))
    return different


class _NestedReader:
    """Parses a command and the texts nested in it; `characters` bounds their total length."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def read(self, text: str, level: int) -> list[Command]:
        self._left -= len(text)
        if level > LEVELS or self._left < 0:
            return [Command((), False, False, "commands stand within commands too often")]
        parser = _Parser(text, level, self)
        try:
            parser.read_all()
        except Unclear as unclear:
            why = str(unclear)
            found = [replace(one, plain=False, why=one.why or why) for one in parser.found]
            return found if parser.is_read else [*found, Command((), False, False, why)]
        return parser.found


class _Parser(Reader):
    """Parses one text; `found` are the commands in it."""

    def __init__(self, text: str, level: int, reading: _NestedReader) -> None:
        super().__init__(text)
        self._level = level
        self._reading = reading
        self.found: list[Command] = []
        self._here: list[tuple[str, bool, bool]] = []

    def read_all(self) -> None:
        """Parse everything. Raises `Unclear`; commands before that are in `found`."""
        self._list(closed=False)

    def _list(self, *, closed: bool) -> None:
        """Read commands and separators, up to the closing bracket or the end."""
        while True:
            self._command()
            following = self.peek()
            if not following:
                if closed:
                    raise Unclear("a bracket is not closed")
                return
            if following == ")" and closed:
                return
            if following == ")":
                raise Unclear("a bracket is closed that was not opened")
            self.at += 1
            if following == "\n":
                self._skip_here_documents()

    def read_substitution(self) -> None:
        """Read a list up to its closing round bracket; the opening one was read."""
        self._depth += 1
        if self._depth > NESTED:
            raise Unclear("brackets stand within brackets too often")
        self._list(closed=True)
        self._depth -= 1
        self.at += 1

    def read_nested(self, text: str) -> None:
        self.found += self._reading.read(text, self._level + 1)

    def _command(self) -> None:
        words: list[Word] = []
        try:
            why = self._words(words)
        except Unclear as unclear:
            self._add(words, whole=False, why=str(unclear))
            raise
        if words or why:
            self._add(words, whole=True, why=why)

    def _words(self, words: list[Word]) -> str:
        """Read one simple command into `words`. Answers why it is not plain, "" if it is."""
        why, grouped = "", False
        while True:
            self.skip_blanks()
            following = self.peek()
            if not following or following in "\n;|)" or (following == "&" and self.peek(1) != ">"):
                return why
            if following == "#":
                self.skip_line()
            elif following == "(":
                if words or grouped:
                    raise Unclear("a bracket stands within a command")
                self.at += 1
                self.read_substitution()
                grouped = True
            elif self.at_process():
                self.at += 2
                self.read_substitution()
                words.append(Word(is_known=False, why="it substitutes"))
            elif self.at_redirection():
                why = self._redirected() or why
            else:
                start = self.at
                word = self.word()
                if not words and self._is_mark(word, start):
                    why = why or ("" if word.text in _MARKS else "it is more than simple commands")
                    if word.text in _NAMING:
                        words.append(Word(is_known=False, why=why))
                elif not words and self.is_assignment(start):
                    why = why or "it sets variables"
                else:
                    words.append(word)

    def _is_mark(self, word: Word, start: int) -> bool:
        return not word.quoted and (word.text in _KEYWORDS or word.text in _MARKS) and word.text == self.since(start)

    def _redirected(self) -> str:
        """Read a redirection. Answers why it is not plain, "" if it involves no file but /dev/null."""
        sign = self.redirection()
        if sign in ("<<", "<<-"):
            self.skip_blanks()
            mark = self.word()
            self._here.append((mark.text, mark.quoted, sign == "<<-"))
            return "it has a here-document"
        self.skip_blanks()
        if self.at_end_of_word():
            raise Unclear("a redirection names nothing")
        target = self.word()
        into_nothing = target.is_known and target.text == "/dev/null" and sign not in ("<<<", "<>")
        copied = sign in (">&", "<&") and target.is_known and (target.text.isdecimal() or target.text == "-")
        return "" if into_nothing or copied else "it redirects"

    def _skip_here_documents(self) -> None:
        """Skip the here-documents after a line with `<<`; a shell expands one whose mark is not quoted."""
        for mark, quoted, tabs in self._here:
            body = self.lines_until(mark, tabs)
            if not quoted and ("$" in body or "`" in body):
                self._add([], whole=False, why="its here-document is expanded")
        self._here = []

    def _add(self, words: Sequence[Word], *, whole: bool, why: str) -> None:
        known = next((place for place, word in enumerate(words) if not word.is_known), len(words))
        argv = tuple(word.text for word in words[:known])
        whole = whole and known == len(words)
        why = why or next((word.why for word in words if word.why), "") or _runs_others(argv)
        if argv or why or not whole:
            self.found += self._inner_commands(argv, whole)
            self.found.append(Command(argv, whole, not why, why))

    def _inner_commands(self, argv: tuple[str, ...], whole: bool) -> Iterator[Command]:
        """The commands that a command may run, where it runs others."""
        name = argv[0].rpartition("/")[2] if argv else ""
        why = f"{name} runs it"
        if (text := _text_of(name, argv)) is not None:
            for one in self._reading.read(text, self._level + 1):
                yield replace(one, plain=False, why=one.why or why)
        elif name in _RUN_OTHERS:
            for place in range(1, min(len(argv), _SUFFIXES + 1)):
                yield Command(argv[place:], whole, False, why)
                if argv[place].rpartition("/")[2] in _TAKE_TEXT:
                    yield from self._inner_commands(argv[place:], whole)
        elif name in _RENAME or (name in _SHELLS and _reads_input(argv)):
            yield Command((), False, False, why)
        elif name == "find":
            places = [place for place, word in enumerate(argv[:-1], start=1) if word in _EXECUTE]
            yield from (Command(argv[place:], whole, False, why) for place in places[:_SUFFIXES])
        if (not whole and name in (_RUN_OTHERS | _TAKE_TEXT)) or (name in _RUN_OTHERS and len(argv) > _SUFFIXES):
            yield Command((), False, False, why)


def _runs_others(argv: Sequence[str]) -> str:
    """Why a command with known words still does more than they say; "" if it does not."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if name in _EVALUATE and any("[" in word and ("$(" in word or "`" in word) for word in argv[1:]):
        return f"{name} may run what stands in brackets"
    shell = name in _SHELLS and (_script(argv) is not None or _reads_input(argv))
    if name in _READ_ON or name in _RUN_OTHERS or name in _RENAME or shell:
        return f"{name} runs other commands"
    return "find runs other commands" if name == "find" and not _EXECUTE.isdisjoint(argv) else ""


def _text_of(name: str, argv: Sequence[str]) -> str | None:
    """The command text among the arguments of `eval`, `trap` or a shell; None where there is none."""
    if name == "eval":
        return " ".join(argv[1:])
    if name == "trap":
        return argv[1] if len(argv) > 1 else None
    return _script(argv) if name in _SHELLS else None


def _reads_input(argv: Sequence[str]) -> bool:
    """Whether a shell gets neither command text nor a file, and so reads commands from its input."""
    return _script(argv) is None and ("-s" in argv or all(word.startswith(("-", "+")) for word in argv[1:]))


def _script(argv: Sequence[str]) -> str | None:
    """The argument after `-c`, which may be combined with other letters (`-lc`)."""
    for place, word in enumerate(argv[1:-1], start=1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            return argv[place + 1]
        if not word.startswith(("-", "+")):
            return None
    return None
