"""Commands that a command runs: behind wrappers, in the text given to a shell, in `find -exec`, in builtins."""

from collections.abc import Callable, Mapping, Sequence

from mcc.permission.program_options import ProgramOptions, options_of
from mcc.permission.shell_builtins import BUILTINS, COMMENTS, KEYWORDS, Builtin, assigned_commands, is_input
from mcc.permission.shell_programs import OTHER_SHELLS, PROGRAMS, SHELLS, ShellProgram
from mcc.permission.shell_text import Unclear
from mcc.permission.shell_words import HOLE, Word
from mcc.permission.simple_commands import EXECUTE, TOO_DEEP, CommandReading, Inner, SimpleCommand, unknown, within

_TRIED = 8
"""Most places at which an inner command is assumed to begin, behind a word that may be an option."""

_ARCHITECTURES = ("linux32", "linux64", "i386", "i486", "i586", "i686", "x86_64", "uname26", "arm", "aarch64", "ppc")


def inner_commands(words: Sequence[Word], reading: CommandReading, level: int) -> Inner:
    """What the command with these words runs. Never raises."""
    name = _program(words[0].text) if words and words[0].is_known else ""
    # A word such as `-exec` outside of find may get to a find of this text through a variable, which `at_end` asks.
    if name != "find" and any(option in word.text for word in words for option in EXECUTE):
        reading.variables.executes = True
    if name in BUILTINS or name in PROGRAMS or name in SHELLS or name in OTHER_SHELLS or name in _READERS:
        if not reading.step():
            return Inner([unknown(TOO_DEEP)], TOO_DEEP)
        try:
            reading.enter()
        except Unclear:
            return Inner([unknown(TOO_DEEP)], TOO_DEEP)
        # An empty variable that is no word shifts the words behind it, and with them the place of an inner command.
        if name not in BUILTINS:
            reading.rely(words)
        inner = _Runner(name, words, reading, level).inner()
        reading.leave()
        return inner
    return Inner()


def simple(words: Sequence[Word], reading: CommandReading, level: int) -> list[SimpleCommand]:
    """The command with these words, behind those that it runs."""
    if not words:
        return []
    known = next((place for place, word in enumerate(words) if not word.is_known), len(words))
    argv = tuple(word.text for word in words[:known])
    reading.names.update(argv[:1])
    inner = inner_commands(words, reading, level)
    why = next((word.why for word in words if word.why), "") or inner.why
    return [*inner.commands, SimpleCommand(argv, known == len(words), not why, why)]


def _program(path: str) -> str:
    """The name of the program; that of a process is a shell, as the process of a command is."""
    return "bash" if path.startswith("/proc/") and path.endswith("/exe") else path.rpartition("/")[2]


class _Runner:
    """One command that may run others."""

    def __init__(self, name: str, words: Sequence[Word], reading: CommandReading, level: int) -> None:
        self.name = name
        self.words = words
        self.reading = reading
        self.level = level

    def inner(self) -> Inner:
        if (built := BUILTINS.get(self.name)) is not None:
            return built(Builtin(self.name, self.words, self.reading, self.level))
        if (read := _READERS.get(self.name)) is not None:
            return read(self)
        why = f"{self.name} runs it"
        if self.name in OTHER_SHELLS:
            return Inner([self.unknown()], "it runs other commands")
        if self.name in SHELLS:
            commands = self.shell(options_of(self.words, SHELLS[self.name], plus=True))
            return Inner(within(commands, why), why if commands else "")
        commands = self.program(PROGRAMS[self.name])
        # `jobs` lists unless `-x` is given; the other programs run commands, which a rule about their own words would
        # miss.
        is_plain = self.name == "jobs" and not commands
        return Inner(within(commands, why), "" if is_plain else f"{self.name} runs other commands")

    def unknown(self, why: str = "") -> SimpleCommand:
        return unknown(why or f"{self.name} runs a command that is not known from its words")

    def text(self, words: Sequence[Word], *, posix: bool = False) -> list[SimpleCommand]:
        """The commands in the text that the words are, joined by blanks."""
        if not all(word.is_known or (word.is_safe and word.is_one) for word in words):
            return [self.unknown(f"{self.name} runs a text that only a shell could expand")]
        self.reading.trust(words)
        return self.reading.read(" ".join(word.text for word in words), self.level + 1, posix=posix)

    def simple(self, words: Sequence[Word]) -> list[SimpleCommand]:
        return simple(words, self.reading, self.level)

    def program(self, program: ShellProgram) -> list[SimpleCommand]:
        options = options_of(self.words, program)
        if options is None:
            return [self.unknown(f"{self.name} has options that are not known")]
        self.reading.trust(self.words)
        if program.ends & options.seen.keys():
            return []
        commands = [command for word in options.values(program.text) for command in self.text([word], posix=True)]
        if program.text & options.seen.keys():
            return commands
        if self.name == "env":
            options = self.split_by_env(options)
            if options is None:
                return [self.unknown("env runs a text that it splits by itself")]
        return self.after(program, options)

    def split_by_env(self, found: ProgramOptions) -> ProgramOptions | None:
        """Put the words of `env -S` in place of the option."""
        texts = found.values(frozenset({"S", "split-string"}))
        if not texts:
            return found
        text = texts[0]
        if len(texts) > 1 or not text.is_known or any(sign in text.text for sign in "\\$#'\"\n"):
            return None
        words = [Word(text=word) for word in text.text.split()]
        return options_of([self.words[0], *words, *found.rest], PROGRAMS["env"])

    def after(self, program: ShellProgram, found: ProgramOptions) -> list[SimpleCommand]:
        """What follows the options and operands of a program."""
        rest, tried = list(found.rest), found.is_doubtful
        commands: list[SimpleCommand] = []
        if program.assigns:
            rest, assigned = self.without_assignments(rest)
            commands += assigned
        if self.name == "setarch" and rest and rest[0].text.startswith(_ARCHITECTURES):
            # setarch takes options before the architecture and after it.
            again = options_of(rest, program)
            if again is None:
                return [self.unknown(f"{self.name} has options that are not known")]
            rest = list(again.rest)
        operands, rest = rest[: program.operands], rest[program.operands :]
        if any(not word.is_one for word in operands):
            return [*commands, self.unknown(f"the words of {self.name} are not known")]
        if program.operands and any(not word.is_known and word.text.startswith(HOLE) for word in operands):
            tried = True
        if tried:
            # A word that may be an option with a value hides where the command begins, so each possible place is
            # judged.
            commands += [command for place in range(1, min(len(rest), _TRIED)) for command in self.simple(rest[place:])]
        if self.name == "runuser" and found.values(frozenset({"u", "user"})):
            return commands + (self.simple(rest) or [self.unknown()])
        if program.follows == "nothing":
            return [*commands, self.unknown("a shell reads its input")]
        if not rest:
            shell = program.alone == "shell" or bool(program.shells & found.seen.keys())
            return [*commands, self.unknown("a shell reads its input")] if shell else commands
        return commands + self.following(program, found, rest)

    def following(self, program: ShellProgram, found: ProgramOptions, rest: list[Word]) -> list[SimpleCommand]:
        if self.name in ("flock", "sg") and rest[0].is_known and rest[0].text in ("-c", "--command"):
            return self.text(rest[1:2], posix=True) if rest[1:] else [self.unknown()]
        if self.name == "ssh":
            again = options_of([self.words[0], *rest], PROGRAMS["ssh"])
            rest = list(again.rest) if again is not None else rest
        if program.follows == "text" and not {"x", "exec"} & found.seen.keys():
            return self.text(rest, posix=True)
        # Also behind `sudo -s`: its shell gets the words with their blanks and signs escaped.
        return self.simple(rest)

    def without_assignments(self, words: list[Word]) -> tuple[list[Word], list[SimpleCommand]]:
        found: list[SimpleCommand] = []
        for place, word in enumerate(words):
            name, is_set, value = word.text.partition("=")
            if not is_set or HOLE in name or not word.is_one:
                return words[place:], found
            found += assigned_commands(name, value, word, self.reading, self.level)
        return [], found

    def xargs(self) -> Inner:
        """The command of xargs gets words from its input: those after its own are unknown."""
        why = "xargs runs other commands"
        options = options_of(self.words, PROGRAMS["xargs"])
        if options is None:
            return Inner([self.unknown("xargs has options that are not known")], why)
        if _HELP & options.seen.keys():
            return Inner()
        if not options.rest:
            return Inner([self.unknown("xargs has no command of its own")], why)
        marks = [word.text or "{}" for word in options.values(frozenset({"I", "i", "replace"}))]
        rest = _replaced(options.rest, marks[-1]) if marks else [*options.rest, _MORE]
        return Inner(within(self.simple(rest), "xargs runs it"), why)

    def parallel(self) -> Inner:
        """The words of parallel are joined to one text, with words from its arguments or input, which it quotes."""
        why = "parallel runs other commands"
        options = options_of(self.words, PROGRAMS["parallel"])
        if options is None:
            return Inner([self.unknown("parallel has options that are not known")], why)
        if PROGRAMS["parallel"].ends & options.seen.keys():
            return Inner()
        command_words: list[Word] = []
        for word in options.rest:
            if word.is_known and word.text.rstrip("+") in (":::", "::::"):
                break
            command_words.append(word)
        marks = [word.text for word in options.values(frozenset({"I"}))]
        if (
            not command_words
            or not all(word.is_known for word in command_words)
            or any("{=" in word.text for word in command_words)
            or marks
        ):
            return Inner([self.unknown("parallel runs what it reads")], why)
        # parallel hands one text to a shell: signs in its words are commands there, however they were quoted here.
        text = _filled(" ".join(word.text for word in command_words))
        return Inner(within(self.text([Word(f"{text} {HOLE}")]), "parallel runs it"), why)

    def find(self) -> Inner:
        """What `-exec` and its like run, up to `;` or `+`; find puts file names in place of `{}`."""
        commands: list[SimpleCommand] = []
        place = 1
        while place < len(self.words):
            word = self.words[place]
            place += 1
            if word.is_known and word.text in EXECUTE:
                end = next((at for at in range(place, len(self.words)) if _ends(self.words, at)), len(self.words))
                # A path that find gives begins as its starting point does, so never as an option.
                listed = any(word.text.startswith("-files0") for word in self.words)
                run = _replaced(self.words[place:end], "{}", "" if listed else "./")
                commands += self.simple(run) or [self.unknown()]
                place = end
            elif not word.is_known and word.text.lstrip("{").startswith("-"):
                commands.append(self.unknown("the words of find are not known"))
        why = "find runs other commands" if commands else ""
        self.reading.finds_others |= any(not word.is_known and word.text[:1] in ("", HOLE) for word in self.words)
        if any(word is _MORE for word in self.words):
            commands.append(self.unknown("the words of find are not known"))
        return Inner(within(commands, "find runs it"), why)

    def shell(self, found: ProgramOptions | None) -> list[SimpleCommand]:
        if found is None:
            return [self.unknown(f"{self.name} has options that are not known")]
        if _HELP & found.seen.keys():
            return []
        if "i" in found.seen or "posix" in found.seen:
            self.reading.expands_aliases = True
        if "k" in found.seen or any(value.text == "keyword" for value in found.values(frozenset({"o"}))):
            return [self.unknown(KEYWORDS)]
        for value in found.values(frozenset({"O", "o"})):
            self.reading.expands_aliases |= value.text in ("expand_aliases", "posix") or not value.is_known
            if value.text == "interactive_comments":
                return [self.unknown(COMMENTS)]
        for file in found.values(frozenset({"rcfile", "init-file"})):
            if is_input(file) or not file.is_one:
                return [self.unknown("a shell reads its input")]
        if "c" in found.seen:
            return self.shell_text(found.rest)
        if "s" in found.seen or not found.rest:
            return [self.unknown("a shell reads its input")]
        return self.script(found)

    def script(self, found: ProgramOptions) -> list[SimpleCommand]:
        """A shell that runs a file: unknown only where the file may be its input, or an option."""
        file = found.rest[0]
        self.reading.runs_files |= found.is_doubtful or not file.is_known
        if is_input(file) or not file.is_one:
            return [self.unknown("a shell reads its input")]
        return self.text(found.rest[1:2]) if found.is_doubtful and found.rest[1:] else []

    def shell_text(self, rest: Sequence[Word]) -> list[SimpleCommand]:
        if not rest:
            return []
        if not rest[0].is_one:
            return [self.unknown(f"{self.name} runs a text that only a shell could expand")]
        commands = self.text(rest[:1], posix=self.name not in ("bash", "rbash"))
        if self.name in ("zsh", "rzsh") and not all(command.plain and command.whole for command in commands):
            # The grammar here is that of sh and bash; where a text is plain, zsh agrees with both.
            commands.append(self.unknown("zsh may read it in another way"))
        return commands


_HELP = frozenset({"help", "version"})
_MORE = Word(HOLE, is_known=False, is_one=False, is_safe=False)


def _ends(words: Sequence[Word], place: int) -> bool:
    text = words[place].text
    return text == ";" or (text == "+" and words[place - 1].text == "{}")


def _replaced(words: Sequence[Word], mark: str, start: str = "") -> list[Word]:
    """The words, of which those with the mark are unknown. What is put in its place begins with `start`."""
    return [
        Word(word.text.replace(mark, start + HOLE), word.quoted, is_known=False, is_one=True, is_safe=False)
        if mark and mark in word.text
        else word
        for word in words
    ]


def _filled(text: str) -> str:
    """The text with holes for the replacement strings of parallel, such as `{}`, `{.}` and `{2/}`."""
    parts: list[str] = []
    for place, piece in enumerate(text.split("{")):
        inner, closed, after = piece.partition("}")
        if place and closed and all(sign in "0123456789./#%+-:" for sign in inner):
            parts += [HOLE, after]
        else:
            parts += ["{" if place else "", piece]
    return "".join(parts)


_READERS: Mapping[str, Callable[[_Runner], Inner]] = {
    "xargs": _Runner.xargs,
    "parallel": _Runner.parallel,
    "sem": _Runner.parallel,
    "find": _Runner.find,
}
