"""Builtins of sh and bash that read text as commands, evaluate it, or change what later words mean."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mcc.permission.program_options import ProgramOptions, options_of
from mcc.permission.shell_programs import ShellProgram
from mcc.permission.shell_words import HOLE, Word
from mcc.permission.simple_commands import CommandReading, Inner, SimpleCommand, is_name, unknown, within

_MAPFILE = ShellProgram("t", "dnOsuCc")
_COMPGEN = ShellProgram("abcdefgjksuvprDEI", "oAGWFCXPSV")


COMMENTS = "comments may be commands"
KEYWORDS = "every word of a command may set a variable"


def is_input(word: Word) -> bool:
    """Whether the file that the word names is the input of the command, or what another one prints."""
    *before, name = posixpath.normpath(word.text).replace(HOLE, "/").split("/")
    # `/dev/stdin`, `/dev/fd/3` and `/proc/self/fd/0` are all ways to write "my input"; normalized, so that `..` hides
    # none.
    within_devices = before[:2] == ["", "dev"] and name != "null"
    return word.from_process or within_devices or name == "stdin" or name.isdecimal() or "fd" in before


def assigned_commands(name: str, value: str, word: Word, reading: CommandReading, level: int) -> list[SimpleCommand]:
    """What is run because a variable gets this value."""
    # Shells expand these by themselves, substitutions included, each time that they prompt or trace.
    if name in ("PS0", "PS1", "PS2", "PS4"):
        reading.prompts = True
        if HOLE in value and name in ("PS0", "PS4"):
            return [unknown(f"{name} has commands that only a shell could expand")]
        return reading.evaluated(value, level)
    if name == "SHELLOPTS" and (HOLE in value or {"keyword", "histexpand"} & set(value.split(":"))):
        return [unknown("options of a shell change what words mean")]
    # A bash that is started with one of these in its environment may be in POSIX mode, or expand aliases.
    if name in ("POSIXLY_CORRECT", "SHELLOPTS", "BASHOPTS"):
        reading.expands_aliases = True
    if name in ("BASH_ENV", "ENV"):
        if HOLE in value or is_input(Word(value, from_process=word.from_process)):
            return [unknown(f"{name} names commands that come from elsewhere")]
        return reading.evaluated(value, level)
    if name in ("BASH_ALIASES", "BASH_CMDS"):
        return [unknown(f"{name} gives a command another name")]
    # bash defines a function from each variable `BASH_FUNC_…` that it inherits: its value is a text of commands.
    if name == "PROMPT_COMMAND" or name.startswith("BASH_FUNC_"):
        if HOLE in value:
            return [unknown(f"{name} has commands that only a shell could expand")]
        return reading.read(value.removeprefix("() "), level + 1)
    return []


@dataclass(slots=True)
class Builtin:
    """One call of a builtin. Its methods answer what it runs, and why it is not plain."""

    name: str
    words: Sequence[Word]
    reading: CommandReading
    level: int

    def text(self, words: Sequence[Word], more: str = "") -> list[SimpleCommand]:
        """The commands in the text that the words are, joined by blanks."""
        if not all(word.is_known or (word.is_safe and word.is_one) for word in words):
            return [unknown(f"{self.name} runs a text that only a shell could expand")]
        self.reading.trust(words)
        text = " ".join(word.text for word in words) + more
        return within(self.reading.read(text, self.level + 1), f"{self.name} runs it")

    def evaluated(self, words: Sequence[Word]) -> list[SimpleCommand]:
        found = [one for word in words for one in self.reading.evaluated(word.text, self.level)]
        return within(found, f"{self.name} may run what stands in brackets")

    def options(self, program: ShellProgram) -> ProgramOptions | None:
        return options_of(self.words, program)

    def runs(self, commands: list[SimpleCommand]) -> Inner:
        return Inner(commands, f"{self.name} runs other commands")

    def eval(self) -> Inner:
        words = self.words[1:]
        words = words[1:] if words and words[0].text == "--" else words
        return self.runs(self.text(words) if words else [])

    def trap(self) -> Inner:
        words = [word for word in self.words[1:] if word.text != "--"]
        if not words or words[0].text in ("-l", "-p", "-lp", "-pl", "-P", "-"):
            return self.runs([])
        return self.runs(self.text(words[:1]))

    def source(self) -> Inner:
        words = [word for word in self.words[1:] if word.text != "--"]
        self.reading.runs_files |= bool(words) and not words[0].is_known
        # What a file says is not read here; but input that another command of this text prints is no file at all.
        if words and is_input(words[0]):
            return self.runs([unknown("it reads commands from its input, or from what another command prints")])
        return self.runs([])

    def alias(self) -> Inner:
        commands: list[SimpleCommand] = []
        for word in self.words[1:]:
            name, is_set, value = word.text.partition("=")
            if HOLE in word.text and not word.is_safe:
                commands.append(unknown("an alias stands for what only a shell could expand"))
            elif is_set:
                self.reading.aliases.add(name)
                commands += self.text([Word(value)])
        return self.runs(commands)

    def hash(self) -> Inner:
        # After `hash -p /bin/rm ls`, `ls` runs rm.
        renames = any(word.text.startswith("-") and "p" in word.text for word in self.words[1:])
        return self.runs([unknown("hash gives a program another name")] if renames else [])

    def enable(self) -> Inner:
        loads = any(word.text.startswith("-") and "f" in word.text for word in self.words[1:])
        return self.runs([unknown("enable loads a builtin from a file")] if loads else [])

    def fc(self) -> Inner:
        lists = any(word.text.startswith("-") and "l" in word.text for word in self.words[1:2])
        return Inner() if lists else self.runs([unknown("fc runs commands of the history again")])

    def bind(self) -> Inner:
        binds = any(word.text.startswith("-x") for word in self.words[1:])
        return self.runs([unknown("bind runs commands at a key")]) if binds else Inner()

    def set(self) -> Inner:
        for before, word in zip(self.words, self.words[1:], strict=False):
            if word.text in ("--", "-"):
                break
            is_named = before.text.startswith(("-", "+")) and before.text.endswith("o")
            if word.text == "posix" and is_named:
                self.reading.expands_aliases = True
            history = word.text in ("histexpand", "history") and is_named
            if (is_named and word.text == "keyword") or (
                word.text[:1] == "-" and word.text[1:].isalpha() and "k" in word.text
            ):
                return self.runs([unknown(KEYWORDS)])
            if history or (word.text.startswith("-") and "H" in word.text):
                return self.runs([unknown("earlier commands are put in place of words with !")])
        # `set -- WORDS` sets the positional parameters, so each of its words may be the value of `$1` or `$@`.
        for word in self.words[1:]:
            self.reading.variables.assign("@", word, word.text)
        return Inner()

    def shopt(self) -> Inner:
        options = {word.text for word in self.words[1:]}
        if "interactive_comments" in options:
            return self.runs([unknown(COMMENTS)])
        # `shopt -u` counts like `-s`: which of several runs last is not known.
        self.reading.expands_aliases |= "expand_aliases" in options or any(HOLE in one for one in options)
        return Inner()

    def cd(self) -> Inner:
        self.reading.variables.go(self.words[1:])
        return Inner()

    def let(self) -> Inner:
        for word in self.words[1:]:
            self.reading.calculates |= self.reading.variables.calculate(word.text)
        return self.brackets(self.words[1:])

    def declare(self) -> Inner:
        """`declare` and its like set variables, some to what they calculate (-i) or to names of others (-n)."""
        commands: list[SimpleCommand] = []
        variables, is_set_up = self.reading.variables, True
        for word in self.words[1:]:
            text = word.text
            if text.startswith("-") and self.name not in ("export", "readonly"):
                is_set_up = is_set_up and not {"n", "i"} & set(text)
                continue
            name, is_set, value = text.partition("=")
            name = name.removesuffix("+").partition("[")[0]
            if is_set and HOLE not in name:
                variables.assign(name, word, value)
                if not is_set_up:
                    variables.set_elsewhere(value.partition("[")[0])
                    variables.renamed = variables.renamed or HOLE in value
                commands += assigned_commands(name, value, word, self.reading, self.level)
            # A variable whose name is unknown may be any variable, also one that a command text relied on.
            elif HOLE in name:
                variables.any_trusted = False
                self.reading.calculates = self.reading.prompts = True
        if not is_set_up:
            variables.any_trusted = False
            self.reading.calculates = True
        inner = self.brackets(self.words[1:])
        return Inner(commands + inner.commands, inner.why)

    def brackets(self, words: Sequence[Word]) -> Inner:
        """A substitution in the index of a name is run, even if it was quoted."""
        texts = [word for word in words if "[" in word.text and ("$" in word.text or "`" in word.text)]
        # What stands in the brackets is expanded once more, with the values of its variables.
        self.reading.prompts |= any("[" in word.text and HOLE in word.text for word in words)
        found = self.evaluated(texts)
        return Inner(found, f"{self.name} may run what stands in brackets" if found else "")

    def names(self) -> Inner:
        """`read` and its like take names of variables, which they set."""
        for word in self.words[1:]:
            if is_name(word.text.partition("[")[0]):
                self.reading.variables.set_elsewhere(word.text.partition("[")[0])
            # An unknown name sets any variable; wait sets none by its operands.
            elif HOLE in word.text and not word.text.startswith("-") and self.name != "wait":
                self.reading.calculates = self.reading.prompts = True
                self.reading.variables.any_trusted = False
        return self.brackets(self.words[1:])

    def test(self) -> Inner:
        if not {"-v", "-R"} & {word.text for word in self.words}:
            return Inner()
        self.reading.calculates |= any(HOLE in word.text for word in self.words)
        return self.brackets(self.words[1:])

    def printf(self) -> Inner:
        names = [after for one, after in zip(self.words, self.words[1:], strict=False) if one.text == "-v"]
        names += [Word(one.text[2:]) for one in self.words[1:2] if one.text.startswith("-v") and len(one.text) > 2]
        return Builtin(self.name, [self.words[0], *names], self.reading, self.level).names() if names else Inner()

    def mapfile(self) -> Inner:
        found = self.options(_MAPFILE)
        if found is None:
            return self.runs([unknown(f"{self.name} has options that are not known")])
        called = [one for word in found.values("C") for one in self.text([word], f" {HOLE} {HOLE}")]
        inner = self.names()
        return self.runs(called + inner.commands) if called else inner

    def compgen(self) -> Inner:
        found = self.options(_COMPGEN)
        if found is None:
            return self.runs([unknown(f"{self.name} has options that are not known")])
        called = [one for word in found.values("C") for one in self.text([word], f" {HOLE} {HOLE} {HOLE}")]
        called += self.evaluated(self.words[1:])
        self.reading.prompts |= any(HOLE in word.text for word in found.values("W"))
        return self.runs(called) if called else Inner()


BUILTINS: Mapping[str, Callable[[Builtin], Inner]] = {
    "eval": Builtin.eval,
    "trap": Builtin.trap,
    ".": Builtin.source,
    "source": Builtin.source,
    "alias": Builtin.alias,
    "hash": Builtin.hash,
    "enable": Builtin.enable,
    "fc": Builtin.fc,
    "bind": Builtin.bind,
    "set": Builtin.set,
    "shopt": Builtin.shopt,
    "let": Builtin.let,
    **dict.fromkeys(("cd", "pushd"), Builtin.cd),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), Builtin.declare),
    **dict.fromkeys(("read", "unset", "wait", "getopts"), Builtin.names),
    **dict.fromkeys(("test", "["), Builtin.test),
    "printf": Builtin.printf,
    **dict.fromkeys(("mapfile", "readarray"), Builtin.mapfile),
    **dict.fromkeys(("compgen", "complete"), Builtin.compgen),
}
