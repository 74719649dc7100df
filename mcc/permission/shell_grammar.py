"""Grammar of sh and bash: lists, compound commands, redirections and here-documents, down to simple commands."""

from collections.abc import Sequence

from mcc.permission.command_text import CommandText
from mcc.permission.inner_commands import inner_commands
from mcc.permission.shell_builtins import assigned_commands
from mcc.permission.shell_text import NAMED, Unclear, Undecided, is_assignment
from mcc.permission.shell_words import Word
from mcc.permission.simple_commands import SimpleCommand, unknown, within

_SKIPPED = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until"})
_MARKS = frozenset("!{}")
_COMPOUND = ("{", "(", "[[", "if", "while", "until", "for", "select", "case")
_READ = frozenset({"case", "[[", "for", "select", "function", "coproc", "time", *_SKIPPED, *_MARKS})
_ARITHMETIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
"""Tests in `[[ … ]]` that calculate with their operands."""


class Parser(CommandText):
    """Parses one text."""

    def read_all(self) -> None:
        """Parse everything. Raises `Unclear`; commands before that are in `found`."""
        self._list("")

    def read_expanded(self) -> None:
        """Parse the substitutions in a text that a shell expands as if it stood within double quotes."""
        self.text_to(len(self._text))

    def _list(self, closing: str) -> None:
        """Read commands and separators, up to the closing bracket, the end of an alternative of `case`, or the end."""
        while True:
            if closing == "esac" and self._at_end_of_alternative():
                return
            self._command()
            following = self.peek()
            if not following:
                if closing:
                    raise Unclear("a bracket is not closed")
                return
            if following == ")" and closing == ")":
                return
            if following == ")":
                raise Unclear("a bracket is closed that was not opened")
            if closing == "esac" and self.starts((";;", ";&")):
                return
            self.at += 1
            if following == "\n":
                self.read_here_documents()

    def _at_end_of_alternative(self) -> bool:
        self._skip_lines()
        return self.at_keyword("esac") or self.starts((";;", ";&"))

    def _skip_lines(self) -> None:
        while True:
            self.skip_blanks()
            if self.peek() == "#":
                self.skip_line()
            if self.peek() != "\n":
                return
            self.at += 1
            self.read_here_documents()

    def read_substitution(self) -> bool:
        # Here-documents of the text around it begin after its own line, not within the brackets.
        before, here, self._here = len(self.found), self._here, []
        self.enter()
        self._list(")")
        self.leave()
        self.at += 1
        if self._here:
            self.found.append(unknown("a here-document ends outside of its brackets"))
        self._here = here + self._here
        commands = self.found[before:]
        # With two commands, the output is both of theirs, with a line break in between.
        return len(commands) == 1 and self._reading.variables.is_harmless_output(commands[0])

    def _command(self) -> None:
        words: list[Word] = []
        try:
            why = self._words(words)
        except Unclear as unclear:
            # The words before the unclear place are listed all the same, so that a deny rule sees what the command
            # begins with.
            self._add(words, whole=False, why=str(unclear))
            raise
        if words or why:
            self._add(words, whole=True, why=why)

    def _words(self, words: list[Word]) -> str:
        """Read one simple command into `words`. Answers why it is not plain, "" if it is."""
        why, grouped, parted = "", False, -1
        while True:
            self.skip_blanks()
            following = self.peek()
            if not following or following in "\n;|)" or (following == "&" and self.peek(1) != ">"):
                break
            if following == "#":
                self.skip_line()
            elif following == "(":
                if self._function(words):
                    why = why or "it defines a function"
                elif words or grouped:
                    raise Unclear("a bracket stands within a command")
                else:
                    why = self._bracket() or why
                    grouped = True
            elif not self.at_process() and self.at_redirection():
                parted = len(words) if self.starts("&>") and words else parted
                why = self.redirected() or why
            else:
                not_plain = self._next_word(words)
                why = why or not_plain
        if 0 <= parted < len(words):
            # Shells without `&>` end the command at its `&`.
            self._add(words[parted:], whole=True, why="it redirects")
        return why

    def _function(self, words: list[Word]) -> bool:
        """Whether the word before, which is removed, and the brackets that are read define a function."""
        if len(words) != 1 or not self._empty_brackets():
            return False
        self._reading.functions.add(words[0].text)
        words.clear()
        return True

    def _empty_brackets(self) -> bool:
        """Read brackets with nothing in them. Answers whether they stand here."""
        start = self.at
        self.at += 1
        self.skip_blanks()
        if self.peek() == ")":
            self.at += 1
            return True
        self.at = start
        return False

    def _bracket(self) -> str:
        """Read commands in brackets, or a calculation in two. Answers why it is not plain."""
        self.at += 1
        self.skip_joins()
        if self.peek() == "(" and not self._posix:
            self.enter()
            if (end := self.end_of_calculation()) is not None:
                self.at += 1
                self.calculation(end)
                self.leave()
                return "it calculates"
            self.leave()
        self.read_substitution()
        return ""

    def _next_word(self, words: list[Word]) -> str:
        """Read a keyword with what belongs to it, an assignment, or a word, which is added to `words`. Answers why the
        command is not plain."""
        start = self.at
        if not words and self.starts("!("):
            self.at += 1
            if self._reading.has_patterns:
                self.found.append(unknown("a pattern stands for it"))
            return ""
        word = self.word()
        if self.at == start:
            raise Unclear("it has a sign that is not understood")
        raw = self.joined_since(start)
        if not words and raw.isdecimal() and self.peek() and self.peek() in "<>" and not self.at_process():
            # The number of a descriptor whose line was joined.
            return "it redirects"
        if not words and not word.quoted and word.text in _READ and word.text == raw:
            return self._keyword(word.text, words)
        if is_assignment(raw):
            if self.peek() == "(" and raw.endswith("="):
                word.why = word.why or "it sets variables"
                self._array(word)
                if not self.at_end_of_word():
                    raise Undecided("an array has more behind its bracket")
            if not words:
                self._assigned(word)
                return "it sets variables"
        elif not words and self._is_index(raw):
            raise Unclear("a bracket is not closed")
        elif raw.startswith("{") and raw.endswith("}") and raw[1:2] in NAMED and self.peek() in ("<", ">"):
            self.evaluated(word.text)
            return "it redirects"
        words.append(word)
        return ""

    def _is_index(self, raw: str) -> bool:
        """Whether a word ended within the index of an assignment, which may contain blanks and signs."""
        name = raw.partition("[")[0]
        return "[" in raw and "]" not in raw and bool(name) and all(one in NAMED or one.isdigit() for one in name)

    def _assigned(self, word: Word) -> None:
        name, _, value = word.text.partition("=")
        name, indexed, index = name.removesuffix("+").partition("[")
        if indexed:
            self.calculated(index)
        reading = self._reading
        reading.note(word.text)
        reading.variables.assign(name, word, value)
        self.found += assigned_commands(name, value, word, reading, self._level)

    def _array(self, word: Word) -> None:
        """Read the values of an array into the word."""
        self.enter()
        self.at += 1
        parts: list[str] = []
        while True:
            self._skip_lines()
            if self.peek() == ")":
                break
            start = self.at
            value = self.word()
            if self.at == start:
                raise Unclear("an array is not closed")
            if value.text.startswith("["):
                self.calculated(value.text.partition("]")[0])
            self._reading.note(value.text)
            parts.append(value.text.partition("]=")[2] if value.text.startswith("[") else value.text)
            word.is_safe = word.is_safe and (value.is_known or value.is_safe)
            word.is_known = word.is_known and value.is_known
            word.why = word.why or value.why
        self.at += 1
        self.leave()
        # A blank after the last value, too: an array is never the harmless value of one word.
        word.text += " ".join([*parts, ""])

    def _keyword(self, keyword: str, words: list[Word]) -> str:
        if keyword == "case":
            self._case()
        elif keyword == "[[":
            if self._posix:
                words.append(Word("["))
            self._test()
        elif keyword in ("for", "select"):
            self._loop()
        elif keyword == "function":
            self.skip_blanks()
            self._reading.functions.add(self.word().text)
            self.skip_blanks()
            if self.peek() == "(":
                self._empty_brackets()
        elif keyword == "coproc":
            start = self.at
            self.skip_blanks()
            name = self.name()
            self.skip_blanks()
            if not name or name in _COMPOUND or not (self.peek() == "(" or self.at_keyword(*_COMPOUND)):
                self.at = start
        elif keyword == "time":
            self._skip_options_of_time()
        return "" if keyword in _MARKS else "it is more than simple commands"

    def _skip_options_of_time(self) -> None:
        self.skip_blanks()
        for option in ("-p", "--"):
            if self.at_keyword(option):
                self.at += 2
                self.skip_blanks()

    def _loop(self) -> None:
        """Read what stands between `for` or `select` and the commands."""
        self.skip_blanks()
        if self.starts("(("):
            self._bracket()
            return
        name = self.word().text
        variables = self._reading.variables
        self._skip_lines()
        if not self.at_keyword("in"):
            variables.set_elsewhere(name)
            return
        self.at += 2
        while True:
            self.skip_blanks()
            if self.at_end_of_word() and not self.at_process():
                return
            word = self.word()
            self._reading.note(word.text)
            variables.assign(name, word, word.text)

    def _case(self) -> None:
        """Read from the word of `case` up to `esac`."""
        self.enter()
        self._skip_lines()
        self.word()
        self._skip_lines()
        if not self.at_keyword("in"):
            raise Unclear("a case has no alternatives")
        self.at += 2
        while True:
            self._skip_lines()
            if self.at_keyword("esac"):
                self.at += 4
                self.leave()
                return
            self._patterns()
            before = len(self.found)
            self._list("esac")
            self.found[before:] = within(self.found[before:], "it is more than simple commands")
            while self.starts((";", "&")):
                self.at += 1

    def _patterns(self) -> None:
        """Read the patterns before the commands of an alternative."""
        if self.peek() == "(":
            self.at += 1
        while True:
            self.skip_blanks()
            start = self.at
            self.word()
            self.skip_blanks()
            sign = self.peek()
            if sign not in ("|", ")") or (self.at == start and sign == ")"):
                raise Unclear("a case has no alternatives")
            self.at += 1
            if sign == ")":
                return

    def _test(self) -> None:
        """Read up to the end of `[[ … ]]`."""
        texts: list[str] = []
        start = self.at
        while True:
            self._skip_lines()
            if not self.peek():
                raise Unclear("a test is not closed")
            if self.at_end_of_word() and not self.at_process():
                if self._posix and self.peek() in ("|", "&", ";"):
                    raise Unclear("not every shell knows this test")
                self.at += 1
                continue
            before = self.at
            word = self.word()
            if self.since(before) == "]]":
                break
            self._reading.note(word.text)
            texts.append(word.text)
        if not _ARITHMETIC.isdisjoint(texts):
            self.calculated(" ".join([*texts, self.since(start)]))
        elif self._posix:
            self.evaluated(" ".join(texts))

    def _add(self, words: Sequence[Word], *, whole: bool, why: str) -> None:
        known = next((place for place, word in enumerate(words) if not word.is_known), len(words))
        argv = tuple(word.text for word in words[:known])
        is_whole = whole and known == len(words)
        reading = self._reading
        reading.names.update(argv[:1])
        for word in words:
            reading.note(word.text)
        inner = inner_commands(words, reading, self._level)
        why = why or next((word.why for word in words if word.why), "") or inner.why
        if argv or why or not is_whole:
            self.found += inner.commands
            self.found.append(SimpleCommand(argv, is_whole, not why, why))
