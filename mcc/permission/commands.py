"""Parser of shell commands: splits a command into simple commands and their words, and marks what is uncertain.

It reads the common syntax of sh and bash in one pass, and expands or runs nothing: a word that only a shell could
expand is unknown, and so are the words after it. A command that cannot be read for certain is not plain, so that no
rule allows it; commands that it may contain are listed too, so that rules can deny it. Where the command itself comes
from elsewhere, one is listed of which no word is known.
"""

from dataclasses import replace

from mcc.permission.shell_grammar import Parser
from mcc.permission.shell_text import Unclear, Undecided
from mcc.permission.simple_commands import TOO_DEEP, CommandReading, SimpleCommand, unknown

MOST_CHARACTERS = 20_000
MOST_PARTS = 50
"""A longer text, or one with more simple commands, is not plain."""

MOST_JUDGED = 200
"""Most different simple commands that are listed; the rest counts as one unknown command."""

REPEATED = 4
"""Bound on nested text, as a multiple of the command's length: inner texts are read again."""


def commands_in(text: str) -> tuple[SimpleCommand, ...]:
    """The simple commands in a text, in order; those in substitutions come before the command that contains them.

    Takes linear time. Never raises.
    """
    if len(text) > MOST_CHARACTERS:
        return (unknown(f"it is longer than {MOST_CHARACTERS:,} characters"),)
    reading = _NestedReading(len(text) * REPEATED + MOST_PARTS)
    # Whether `!(…)` is a pattern or a negated group depends on an option that may be set anywhere in the text.
    reading.has_patterns = "extglob" in text
    commands = reading.read(text, 0)
    # Only now is it known what the whole text does to variables, aliases and options, on which earlier words relied.
    commands += reading.at_end()
    if len(commands) > MOST_PARTS:
        commands = [replace(command, plain=False, why=f"it is more than {MOST_PARTS} commands") for command in commands]
    # Each would be judged by every rule again: equal ones get the same decision.
    different = tuple(dict.fromkeys(commands))
    if len(different) > MOST_JUDGED:
        return (*different[:MOST_JUDGED], unknown(f"it is more than {MOST_JUDGED} commands"))
    return different


class _NestedReading(CommandReading):
    def read(self, text: str, level: int, *, posix: bool = False, expands: bool = False) -> list[SimpleCommand]:
        if not self.affords(text, level):
            return [unknown(TOO_DEEP)]
        # A shell in POSIX mode expands aliases in scripts, which bash otherwise does not.
        self.expands_aliases |= posix
        parser, depth = Parser(text, level, self, posix=posix), self.depth
        try:
            parser.read_expanded() if expands else parser.read_all()
        except Unclear as unclear:
            why = str(unclear)
            commands = [replace(command, plain=False, why=command.why or why) for command in parser.found]
            # What follows the unclear place may be commands too, unless the text ended there in every reading of it.
            is_over = parser.is_read and not isinstance(unclear, Undecided)
            return commands if is_over else [*commands, unknown(why)]
        finally:
            # An error leaves brackets open that the texts around this one never opened.
            self.depth = depth
        return parser.found
