"""CEL text cut into the words of cel-python's grammar, in one pass whose time is linear in the text."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcc.rules.errors import RuleError
from mcc.rules.patterns import Pattern

if TYPE_CHECKING:
    from lark import Token

MAX_QUOTED = 120
"""Characters of an expression that a sentence quotes."""

RESERVED = frozenset(("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop")) | {
    *("package", "namespace", "return", "var", "void", "while")
}
"""Words that CEL keeps for later: keys may be called so, names may not."""

_CONSTANTS = {"true": "BOOL_LIT", "false": "BOOL_LIT", "null": "NULL_LIT", "in": "IN"}
_KINDS = ("triple", "single", "float", "whole", "name", "quoted", "sign", "space")


@functools.cache
def _words() -> Pattern:
    return Pattern(
        r"(?P<space>[\t\n\f\r ]+|//[^\n]*)"
        r'|(?P<triple>[bB]?(?:[rR](?:"""(?s:.*?)"""|'
        r"'''(?s:.*?)''')|"
        r'"""(?s:[^\\]|\\.)*?"""|'
        r"'''(?s:[^\\]|\\.)*?'''))"
        r'|(?P<single>[bB]?(?:[rR](?:"[^"\r\n]*"|'
        r"'[^'\r\n]*')|"
        r'"(?:[^"\\\r\n]|\\[^\r\n])*"|'
        r"'(?:[^'\\\r\n]|\\[^\r\n])*'))"
        r"|(?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
        r"|(?P<whole>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?)"
        r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
        r"|(?P<quoted>`[A-Za-z0-9_./\- ]+`)"
        r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])"
        r"|(?s:.)"
    )


class Words:
    """The lexer that the parser asks: it is handed all of a text at once."""

    def __init__(self, conf: Any) -> None:
        """`conf` is the parser's own: the grammar's terminals, among them the names of its signs."""
        self._signs = {
            terminal.pattern.value: terminal.name for terminal in conf.terminals if terminal.pattern.type == "str"
        }

    def lex(self, text: str) -> "Iterator[Token]":
        """Raises `RuleError` at what begins no word of CEL."""
        before = ""
        at, line, start = 0, 1, 0
        for found in _words().finditer(text):
            written = text[at : at + len(found.group())]
            kind = next((one for one in _KINDS if found[one] is not None), "")
            if kind != "space":
                token = self._token(kind, written, before, text, at)
                token.start_pos, token.end_pos = at, at + len(written)
                token.line, token.column = line, at - start + 1
                yield token
                before = written
            if "\n" in written:
                line, start = line + written.count("\n"), at + written.rindex("\n") + 1
            at += len(written)

    def _token(self, kind: str, written: str, before: str, text: str, at: int) -> "Token":
        from lark import Token

        match kind:
            case "triple" | "single" if written[0] in "bB":
                return Token("BYTES_LIT", written)
            case "triple":
                return Token("MLSTRING_LIT", written)
            case "single":
                return Token("STRING_LIT", written)
            case "float":
                return Token("FLOAT_LIT", written)
            case "whole":
                return Token("UINT_LIT" if written[-1] in "uU" else "INT_LIT", written)
            case "name":
                return Token(self._of_name(written, before, text, at), written)
            case "quoted" if before == ".":
                return Token("IDENT", written)
            case "sign":
                return Token(self._signs[written], written)
        raise wrong(f"{written!r} is not expected here{hint(written[0], before)}", text, at)

    def _of_name(self, written: str, before: str, text: str, at: int) -> str:
        if written in RESERVED and before != ".":
            raise wrong(f"{written!r} is a word that CEL keeps for itself; take another name", text, at)
        return _CONSTANTS.get(written, "IDENT")


_HINTS = {
    "=": "; write == to compare",
    "&": "; write && for and",
    "|": "; write || for or",
    "and": "; write && for and",
    "or": "; write || for or",
    "not": "; write ! for not",
    "'": "; a text must be closed with the same quote, on the same line",
    '"': "; a text must be closed with the same quote, on the same line",
    "`": "; only a key after a dot may stand in backquotes",
}


def hint(found: str, before: str) -> str:
    """What was probably meant where `found` is not expected after `before`; nothing when nobody knows."""
    return _HINTS.get(found) or _HINTS.get(before, "")


def wrong(sentence: str, text: str, offset: int) -> RuleError:
    """The error at `offset` of the expression `text`."""
    line = text.count("\n", 0, offset) + 1
    return RuleError(sentence, line, offset - (text.rfind("\n", 0, offset) + 1) + 1, offset)
