"""Parses CEL: MCC's own lexer under cel-python's grammar, literal values, and error messages with positions."""

import functools
import threading
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

from mcc.rules.errors import ExpressionError
from mcc.rules.kinds import MAX_INT, MAX_UINT, Uint
from mcc.rules.patterns import Pattern

if TYPE_CHECKING:
    from lark import Lark, Token, Tree


MAX_QUOTED = 120
"""Characters of an expression that a message quotes."""

RESERVED = frozenset(("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop")) | {
    *("package", "namespace", "return", "var", "void", "while")
}
"""Words that CEL reserves. They are allowed as keys, not as names."""

_KEYWORDS = {"true": "BOOL_LIT", "false": "BOOL_LIT", "null": "NULL_LIT", "in": "IN"}
_GROUPS = ("triple", "single", "float", "whole", "name", "quoted", "sign", "space")
"""The groups of `_token_pattern`."""


@functools.cache
def _token_pattern() -> Pattern:
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


class CelLexer:
    """Splits the text of an expression into the tokens of cel-python's grammar."""

    def __init__(self, conf: Any) -> None:
        """`conf` is lark's lexer configuration, which has the grammar's terminals."""
        self._signs = {
            terminal.pattern.value: terminal.name for terminal in conf.terminals if terminal.pattern.type == "str"
        }

    def lex(self, text: str) -> "Iterator[Token]":
        """The tokens with their positions. Raises `ExpressionError` where no token of CEL begins."""
        before = ""
        at, line, line_start = 0, 1, 0
        for match in _token_pattern().finditer(text):
            # Cut from the text itself: in what the pattern matched, lone surrogates are replaced.
            written = text[at : at + len(match.group())]
            group = next((name for name in _GROUPS if match[name] is not None), "")
            if group != "space":
                token = self._token(group, written, before, text, at)
                token.start_pos, token.end_pos = at, at + len(written)
                token.line, token.column = line, at - line_start + 1
                yield token
                before = written
            if "\n" in written:
                line, line_start = line + written.count("\n"), at + written.rindex("\n") + 1
            at += len(written)

    def _token(self, group: str, written: str, before: str, text: str, at: int) -> "Token":
        from lark import Token

        match group:
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
                return Token(self._name_type(written, before, text, at), written)
            case "quoted" if before == ".":
                return Token("IDENT", written)
            case "sign":
                return Token(self._signs[written], written)
        raise error_at(f"{written!r} is not expected here{hint(written[0], before)}", text, at)

    def _name_type(self, written: str, before: str, text: str, at: int) -> str:
        if written in RESERVED and before != ".":
            raise error_at(f"{written!r} is a word that CEL keeps for itself; take another name", text, at)
        return _KEYWORDS.get(written, "IDENT")


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
    """What was probably meant by the unexpected token `found` after `before`; "" when there is no hint."""
    return _HINTS.get(found) or _HINTS.get(before, "")


def error_at(sentence: str, text: str, offset: int) -> ExpressionError:
    """An error at `offset` of the expression `text`."""
    line = text.count("\n", 0, offset) + 1
    return ExpressionError(sentence, line, offset - (text.rfind("\n", 0, offset) + 1) + 1, offset)


MAX_CHARACTERS = 4_000
"""Longest expression."""
_WRAPPERS = frozenset(
    ("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member", "primary")
) | {"paren_expr"}
"""Rules of the grammar that mean nothing when they have a single child."""

_lock = threading.Lock()


def parsed(text: str) -> "Tree[Token]":
    """The syntax tree of `text`. Raises `ExpressionError`. The first call loads the grammar."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"the expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} can be checked")
    if not text.strip():
        raise ExpressionError("the expression is empty")
    # Imported here because it takes 0.3 s, and most processes never parse a rule.
    from lark.exceptions import LarkError, UnexpectedInput

    with _lock:
        try:
            return _grammar().parse(text)
        except UnexpectedInput as error:
            raise _rule_error(error, text) from error
        except LarkError as error:
            raise ExpressionError("this is not CEL; see the section on expressions of `write rules`") from error


@functools.cache
def _grammar() -> "Lark":
    """cel-python's grammar under `CelLexer`, because lark matches terminals by backtracking (docs/decisions/14)."""
    from lark import Lark
    from lark.lexer import Lexer, LexerState

    class LarkLexer(Lexer):
        """`CelLexer` behind lark's interface."""

        __future_interface__ = 2

        def __init__(self, conf: Any) -> None:
            self._lexer = CelLexer(conf)

        def lex(self, lexer_state: LexerState, parser_state: object) -> "Iterator[Token]":
            return self._lexer.lex(lexer_state.text.text)

    return Lark(
        (resources.files("celpy") / "cel.lark").read_text("utf-8"),
        parser="lalr",
        lexer=LarkLexer,
        start="expr",
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def _rule_error(error: Any, text: str) -> ExpressionError:
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        return error_at("the expression ends where more was expected", text, len(text.rstrip()))
    before = text[: token.start_pos].split()
    return error_at(
        f"{str(token)[:40]!r} is not expected here{hint(str(token), before[-1] if before else '')}",
        text,
        token.start_pos,
    )


def inner(tree: "Tree[Token]") -> "Tree[Token]":
    """`tree` without enclosing grammar rules and brackets that have a single child."""
    found: Any = tree
    while len(found.children) == 1 and found.data in _WRAPPERS:
        found = found.children[0]
    return found  # type: ignore[no-any-return]


def parts(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The children of `tree` that are trees, not tokens."""
    return [child for child in tree.children if not isinstance(child, str)]


def arguments(tree: "Tree[Token]", at: int) -> "list[Tree[Token]]":
    """The arguments in the brackets that are child number `at` of `tree`; [] when the brackets are empty."""
    inside: Any = tree.children[at] if len(tree.children) > at else None
    return [] if inside is None else parts(inside)


def operands(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The operands of `a || b || c` (or `&&`), from left to right."""
    found: list[Any] = []
    left: Any = tree
    while len(left.children) == 2 and left.data == tree.data:
        found.append(left.children[1])
        left = left.children[0]
    return [left, *reversed(found)]


def source(tree: "Tree[Token]", text: str) -> str:
    """The source of `tree` in the expression `text`, on one line and cut to `MAX_QUOTED` characters."""
    flat = " ".join((text if tree.meta.empty else text[tree.meta.start_pos : tree.meta.end_pos]).split())
    return flat if len(flat) <= MAX_QUOTED else flat[: MAX_QUOTED - 1] + "…"


_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_CODES = {"x": 2, "X": 2, "u": 4, "U": 8}
_MAX_DIGITS = 20
"""Digits of the greatest number, 2**64 - 1. Longer numbers are refused before they are converted."""


def literal(token: Any, sign: str = "") -> object:
    """The value of a literal's token; `sign` is the minus before it, or "".

    Raises ValueError with a message that begins with a verb, to follow the quoted literal.
    """
    written = str(token)
    match token.type:
        case "BOOL_LIT":
            return written == "true"
        case "NULL_LIT":
            return None
        case "INT_LIT":
            return _int(sign + written)
        case "UINT_LIT":
            return _uint(written[:-1])
        case "FLOAT_LIT":
            return float(sign + written)
        case "BYTES_LIT":
            return _bytes(written[1:])
    return _text(written)


def _int(written: str) -> int:
    number = _number(written.removeprefix("-")) * (-1 if written.startswith("-") else 1)
    if not -MAX_INT - 1 <= number <= MAX_INT:
        raise ValueError("does not fit into 64 bits")
    return number


def _uint(written: str) -> Uint:
    number = _number(written)
    if number > MAX_UINT:
        raise ValueError("does not fit into 64 bits")
    return Uint(number)


def _number(digits: str) -> int:
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        raise ValueError("does not fit into 64 bits")
    return int(digits, 16 if digits[:2] in ("0x", "0X") else 10)


def _body(written: str) -> tuple[str, bool]:
    """The text between the quotes, and whether the literal is raw, without escapes."""
    raw = written[0] in "rR"
    quoted = written[1:] if raw else written
    quote_length = 3 if quoted[:3] in ('"""', "'''") else 1
    return quoted[quote_length:-quote_length], raw


def _text(written: str) -> str:
    body, raw = _body(written)
    return body if raw or "\\" not in body else "".join(piece for piece, _ in _unescaped(body))


def _bytes(written: str) -> bytes:
    """Octal and hexadecimal escapes are single bytes; all other text is encoded in UTF-8."""
    body, raw = _body(written)
    if raw or "\\" not in body:
        return body.encode("utf-8")
    return b"".join(_encoded(piece, escape) for piece, escape in _unescaped(body))


def _encoded(piece: str, escape: str) -> bytes:
    if escape in ("u", "U"):
        raise ValueError(f"names a character with \\{escape} in bytes; write \\x and two digits for each byte")
    return bytes((ord(piece),)) if escape else piece.encode("utf-8")


def _unescaped(body: str) -> Iterator[tuple[str, str]]:
    """The pieces of `body`, escapes resolved; with each, the kind of its numeric escape (`x`, `o`, `u`, `U`) or ""."""
    at = 0
    while (backslash := body.find("\\", at)) >= 0:
        if backslash > at:
            yield body[at:backslash], ""
        letter = body[backslash + 1]
        at = backslash + 2
        if letter in _ESCAPES:
            yield _ESCAPES[letter], ""
        elif letter in _CODES:
            at += _CODES[letter]
            yield _code(body[backslash + 2 : at], _CODES[letter], 16, letter), letter
        elif letter in "0123":
            at += 2
            yield _code(body[backslash + 1 : at], 3, 8, letter), "o"
        else:
            raise ValueError(f"has the escape \\{letter}, which CEL does not know")
    yield body[at:], ""


def _code(digits: str, length: int, base: int, letter: str) -> str:
    known = "01234567" if base == 8 else "0123456789abcdefABCDEF"
    if len(digits) < length or any(digit not in known for digit in digits):
        raise ValueError(f"has an escape \\{letter} without its {length} digits")
    number = int(digits, base)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError(f"has the escape \\{letter}{digits}, which is no character")
    return chr(number)
