"""A text of commands and what is found in it: its nested texts and variables, redirections and here-documents."""

from mcc.permission.shell_text import Unclear, Undecided
from mcc.permission.shell_words import Word, WordReader
from mcc.permission.simple_commands import CommandReading, SimpleCommand, unknown


class CommandText(WordReader):
    """`found` are the commands in the text. `posix`: a shell without the syntax of bash may read it."""

    def __init__(self, text: str, level: int, reading: CommandReading, *, posix: bool = False) -> None:
        super().__init__(text)
        self._level = level
        self._reading = reading
        self._posix = posix
        self.found: list[SimpleCommand] = []
        self._here: list[tuple[str, bool, bool]] = []

    def enter(self) -> None:
        self._reading.enter()

    def leave(self) -> None:
        self._reading.leave()

    def read_nested(self, text: str) -> None:
        self.found += self._reading.read(text, self._level + 1, posix=self._posix)

    def calculated(self, text: str) -> None:
        if self._reading.variables.calculate(text):
            self._reading.calculates = True
        self.evaluated(text)

    def evaluated(self, text: str) -> None:
        self.found += self._reading.evaluated(text, self._level)

    def prompted(self) -> None:
        self.found.append(unknown("a variable is expanded as a prompt"))

    def set_here(self, name: str) -> None:
        self._reading.variables.set_elsewhere(name)

    def may_stand(self, text: str) -> None:
        self._reading.variables.stands(text)

    def is_full_name(self, name: str) -> bool:
        return self._reading.variables.is_full(name)

    def is_safe_name(self, name: str) -> bool:
        return self._reading.variables.is_harmless(name)

    def _escaped(self, word: Word, parts: list[str]) -> None:
        end = self._text.find("'", self.at)
        if self._posix and "\\" in self._text[self.at : end if end >= 0 else None]:
            raise Undecided("not every shell knows these quotes")
        super()._escaped(word, parts)

    def redirected(self) -> str:
        """Read a redirection. Answers why it is not plain, "" if it involves no file but /dev/null."""
        sign = self.redirection()
        self.skip_blanks()
        if self.at_end_of_word() and not self.at_process():
            raise Unclear("a redirection names nothing")
        if sign in ("<<", "<<-"):
            self._announce_here_document(tabs=sign == "<<-")
            return "it has a here-document"
        target = self.word()
        if sign == "<<<":
            self._reading.note(target.text)
            self._reading.variables.assign("@", target, target.text)
        into_nothing = target.is_known and target.text == "/dev/null" and sign not in ("<<<", "<>")
        copied = sign in (">&", "<&") and target.is_known and (target.text.isdecimal() or target.text == "-")
        return "" if into_nothing or copied else "it redirects"

    def _announce_here_document(self, *, tabs: bool) -> None:
        """Read the mark that ends a here-document: a shell removes its quotes, but expands nothing in it."""
        start, commands_before = self.at, len(self.found)
        mark = self.word()
        raw = self.joined_since(start)
        if mark.is_known:
            text = mark.text
        elif not any(sign in raw for sign in "'\"\\"):
            text = raw
        else:
            raise Unclear("the mark of a here-document is quoted and expanded")
        if self._posix and "$" in raw:
            raise Unclear("the mark of a here-document is quoted and expanded")
        # Commands in the mark were listed while it was read, and never run: a shell does not expand it.
        del self.found[commands_before:]
        self._here.append((text, mark.quoted, tabs))

    def read_here_documents(self) -> None:
        """Read the here-documents after a line with `<<`; a shell expands one whose mark is not quoted."""
        announced, self._here = self._here, []
        for mark, quoted, tabs in announced:
            body = self.lines_until(mark, tabs=tabs, joined=not quoted)
            # Within a substitution, a shell may take the mark with the closing bracket for the end, or read on.
            if self._reading.depth and any(line.lstrip("\t").startswith(f"{mark})") for line in body.split("\n")):
                raise Undecided("a here-document may end at a bracket")
            if quoted:
                self._reading.note(body)
            else:
                self.evaluated(body)
