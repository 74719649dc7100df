"""Simple commands, and what is known of a whole command text while its parts are read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcc.permission.shell_text import DIGITS, NAMED, Unclear
from mcc.permission.shell_words import HOLE, Word

NESTED = 20
"""Deepest nesting of brackets, substitutions and programs that run others."""

LEVELS = 4
"""Deepest nesting of commands in the text of commands (`sh -c '…'`, `eval`, backticks)."""

MOST_STEPS = 500
"""Most programs in one text whose inner commands are looked into; what the rest runs is unknown."""

TOO_DEEP = "commands stand within commands too often"

_HARMLESS = NAMED | DIGITS | frozenset("./:@%+,=-") | {HOLE}
"""Characters that mean nothing to a shell within a word."""

_SAFE_PROGRAMS = frozenset({"mktemp", "pwd", "nproc", "whoami", "hostname", "arch"})
"""Programs whose output is one word without a character that means something to a shell, if their words have none."""

_NUMBERS = frozenset({"RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "SHLVL", "OPTIND"})
_CALCULATED = frozenset(
    {"RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND", "BASHPID", "BASH_SUBSHELL", "EPOCHSECONDS"}
)
"""Variables that are numbers: shells calculate what they are set to."""

_USUAL = frozenset({"HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "HOSTNAME", "TMPDIR", "PATH", "SHELL", "LANG"})
_COMMANDS = frozenset({"PS0", "PS4", "BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_ALIASES", "BASH_CMDS"})
"""Variables whose values, or what they name, a shell runs."""

_EXPANDED = frozenset({"PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV"})
"""Variables whose values shells expand by themselves."""

EXECUTE = ("-exec", "-execdir", "-ok", "-okdir")
"""What makes `find` run commands."""

_EXPAND = ("$(", "`", "${", "$[")
"""What begins an expansion that may run commands."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command: its words, with quotes and escapes resolved.

    `whole` False: only the first words are known, the others, or the command itself where there are none, come from
    elsewhere. `plain` False: it does, or may do, more than the words say; `why` is a phrase that says what.
    """

    argv: tuple[str, ...] = ()
    whole: bool = True
    plain: bool = True
    why: str = ""


@dataclass(slots=True)
class Inner:
    """The commands that a command runs, and why it is not plain, "" where it is."""

    commands: list[SimpleCommand] = field(default_factory=list)
    why: str = ""


def unknown(why: str) -> SimpleCommand:
    """A command of which no word is known."""
    return SimpleCommand((), False, False, why)


def within(found: list[SimpleCommand], why: str) -> list[SimpleCommand]:
    """The commands that another one runs: they are not plain."""
    return [replace(one, plain=False, why=one.why or why) for one in found]


@dataclass(slots=True)
class Variables:
    """What a text says of variables: which are set to harmless values, and which are set from elsewhere.

    A value is harmless where it has no character that means something to a shell, whatever is in its holes.
    `executes`: one was set to a text that makes `find` run commands, or another command has such a word; `opts`: one
    was set to an option, or to a path that stands for input. `trusted`: names whose values must stay harmless, since a
    command text has them. `empty`: names that were set to nothing; `relied`: those that must not be. `printed`:
    programs whose output counts as harmless.

    For calculations: `holed` are names set to a text with unknown pieces, `bracketed` to one with a bracket; `opens`:
    one was set to a text that runs commands within brackets; `counts`: a variable that is a number was set; `pieces`:
    something unknown is calculated; `renamed`: a variable stands for another one, whose name is unknown.
    """

    harmless: set[str] = field(default_factory=lambda: {*_NUMBERS, *_USUAL})
    other: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    trusted: set[str] = field(default_factory=set)
    bracketed: set[str] = field(default_factory=set)
    calculated: set[str] = field(default_factory=set)
    empty: set[str] = field(default_factory=set)
    relied: set[str] = field(default_factory=set)
    printed: set[str] = field(default_factory=set)
    holed: set[str] = field(default_factory=set)
    counts: bool = False
    opens: bool = False
    pieces: bool = False
    renamed: bool = False
    any_trusted: bool = True
    executes: bool = False
    opts: bool = False

    def assign(self, name: str, value: Word, text: str) -> None:
        self.stands(text)
        self.counts = self.counts or name in _CALCULATED
        if "[" in text:
            self.bracketed.add(name)
            self.opens = self.opens or any(sign in text.partition("[")[2] for sign in "$`")
        if HOLE in text:
            self.holed.add(name)
        if not text.strip(HOLE) and not value.fills:
            self.empty.add(name)
        # IFS decides where values are split, so with another IFS no value is harmless.
        if (value.is_known or value.is_safe) and name != "IFS" and all(sign in _HARMLESS for sign in text):
            self.harmless.add(name)
        else:
            self.other.add(name)

    def stands(self, text: str) -> None:
        """Note a text that may be the value of a variable."""
        self.executes = self.executes or any(one in text for one in EXECUTE)
        self.opts = self.opts or text.startswith(("-", "/dev/", "/proc/", "fd/")) or text.endswith("stdin")

    def is_full(self, name: str) -> bool:
        """Whether the variable is never empty, as far as what stands above tells."""
        # The usual ones are inherited, and may be empty or unset where the command runs.
        return name in _NUMBERS or name == "PWD" or name in self.harmless - _USUAL

    def is_harmless_output(self, command: SimpleCommand) -> bool:
        """Whether what the command prints has no character that means something to a shell."""
        if not (command.plain and command.whole and command.argv and command.argv[0] in _SAFE_PROGRAMS):
            return False
        self.printed.add(command.argv[0])
        # What mktemp and pwd print begins with the value of a variable, which the text may have set.
        name = {"mktemp": "TMPDIR", "pwd": "PWD"}.get(command.argv[0], "HOME")
        return self.is_harmless(name) and all(one in _HARMLESS for word in command.argv for one in word)

    def go(self, words: Sequence[Word]) -> None:
        """Note a change of directory, whose name is then a value of `PWD`."""
        known = all(word.is_known or word.is_safe for word in words)
        if not known or not all(one in _HARMLESS or one == "~" for word in words for one in word.text):
            self.other |= {"PWD", "OLDPWD"}

    def set_elsewhere(self, name: str) -> None:
        self.counts = self.counts or name in _CALCULATED
        self.other.add(name)
        self.elsewhere.add(name)

    def is_harmless(self, name: str) -> bool:
        return name in self.harmless and name not in self.other and self.any_trusted

    def calculate(self, text: str) -> bool:
        """Note the names in a calculation. Answers whether there are any, or pieces that are unknown."""
        names = _names(text)
        self.calculated |= names
        self.pieces = self.pieces or HOLE in text
        return bool(names) or HOLE in text or "$" in text

    def doubt(self) -> str:
        """Why what stands above is not enough to know what runs; "" if it is."""
        if self.trusted & self.other or (self.trusted and ("IFS" in self.other or not self.any_trusted)):
            return "a variable in a command text is set in several ways"
        if self.relied & (self.empty | self.other):
            return "a variable that is a word of a command may be empty"
        pieced = self.opens and (self.pieces or not self.calculated.isdisjoint(self.holed))
        if pieced or self.calculated & self.bracketed or (self.renamed and self.bracketed):
            return "it calculates with a variable that was set to a text with brackets"
        return ""


class CommandReading:
    """One command text with all texts nested in it; `characters` bounds their total length."""

    def __init__(self, characters: int) -> None:
        self._left = characters
        self._steps = MOST_STEPS
        self._depth = 0
        self.variables = Variables()
        self.aliases: set[str] = set()
        self.functions: set[str] = set()
        self.names: set[str] = set()
        self.expands_aliases = False
        self.calculates = False
        self.prompts = False
        self.has_patterns = False
        self.finds_others = False
        self.runs_files = False
        self.literals: list[str] = []

    def read(self, text: str, level: int, *, posix: bool = False, expands: bool = False) -> list[SimpleCommand]:
        """The commands in a text; `expands`: those in the substitutions of a text that a shell expands."""
        raise NotImplementedError

    def affords(self, text: str, level: int) -> bool:
        self._left -= len(text)
        return level <= LEVELS and self._left >= 0

    def enter(self) -> None:
        self._depth += 1
        if self._depth > NESTED:
            self._depth -= 1
            raise Unclear("brackets stand within brackets too often")

    def leave(self) -> None:
        self._depth -= 1

    @property
    def depth(self) -> int:
        return self._depth

    @depth.setter
    def depth(self, value: int) -> None:
        self._depth = value

    def trust(self, words: Sequence[Word]) -> None:
        """Rely on it that the variables in the words have harmless values, wherever the text sets them."""
        for word in words:
            self.variables.trusted |= word.trusts

    def rely(self, words: Sequence[Word]) -> None:
        """Rely on it that no word consists of empty variables alone, and is thus none."""
        for word in words:
            if word.fills and not word.quoted and not word.text.strip(HOLE):
                self.variables.relied |= word.trusts

    def step(self) -> bool:
        """Whether one more program may be looked into."""
        self._steps -= 1
        return self._steps >= 0

    def note(self, text: str) -> None:
        """Keep a literal text that a calculation or prompt of the same command text may evaluate."""
        if any(one in text for one in _EXPAND):
            self.literals.append(text)

    def evaluated(self, text: str, level: int) -> list[SimpleCommand]:
        """The commands in the substitutions of a literal text that the shell evaluates."""
        # A shell joins the lines before it looks for substitutions: `$\` and `(` on the next line are one.
        joined = text.replace("\\\n", "")
        if f"${HOLE}" in joined:
            return [unknown("a text with a dollar sign is put together from pieces")]
        return self.read(joined, level + 1, expands=True) if any(one in joined for one in _EXPAND) else []

    def at_end(self) -> list[SimpleCommand]:
        """What the whole text tells beyond its single commands."""
        commands: list[SimpleCommand] = []
        self.prompts |= not _EXPANDED.isdisjoint(self.variables.other | self.variables.harmless)
        if self.calculates or self.prompts or self.variables.counts:
            # Only at the end is it known whether anything in the text calculates or prompts, before these literals or
            # behind.
            for text in dict.fromkeys(self.literals):
                if self.prompts or "[" in text:
                    commands += within(self.evaluated(text, 0), "it is evaluated")
        if self.finds_others and self.variables.executes:
            commands.append(unknown("find has words that come from a variable"))
        if self.runs_files and self.variables.opts:
            commands.append(unknown("a shell has options that come from a variable"))
        if self.variables.elsewhere & _COMMANDS:
            commands.append(unknown("a variable whose value a shell runs is set to what is not known"))
        if self.expands_aliases and self.aliases & self.names:
            commands.append(unknown("an alias stands for it"))
        if self.variables.printed & (self.functions | self.aliases):
            commands.append(unknown("a function stands for it"))
        if doubt := self.variables.doubt():
            commands.append(unknown(doubt))
        return commands


def is_name(text: str) -> bool:
    """Whether the text is a name that a variable may have."""
    return text.isascii() and text.isidentifier()


def _names(text: str) -> set[str]:
    names, now = set[str](), ""
    for sign in f"{text} ":
        if sign in NAMED or (now and sign in DIGITS):
            now += sign
        elif now:
            names.add(now)
            now = ""
    return names
