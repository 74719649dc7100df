"""CEL text into a syntax tree: read by cel-python's grammar, refused with its position."""

import functools
import re
import threading
from importlib import resources
from typing import TYPE_CHECKING, Any

from mcc.rules.errors import RuleError

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_CHARACTERS = 4_000
"""Length of an expression."""
MAX_QUOTED = 120
"""Characters of an expression that a sentence quotes."""

_HINTS = {
    "=": "; write == to compare",
    "&": "; write && for and",
    "|": "; write || for or",
    "and": "; write && for and",
    "or": "; write || for or",
    "not": "; write ! for not",
    "'": "; a text must be closed with the same quote, on the same line",
    '"': "; a text must be closed with the same quote, on the same line",
}
_CHAIN = frozenset(
    ("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member", "primary")
) | {"paren_expr"}
"""Levels of the grammar that mean nothing when they hold a single part."""

_lock = threading.Lock()


def parsed(text: str) -> "Tree[Token]":
    """The syntax tree of `text`. Raises `RuleError`; the first call loads the grammar."""
    if len(text) > MAX_CHARACTERS:
        raise RuleError(f"the expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} can be checked")
    if not text.strip():
        raise RuleError("the expression is empty")
    # Loading is here because it takes 0.3 s, and most processes never see a rule.
    from lark.exceptions import LarkError, UnexpectedInput

    with _lock:
        try:
            return _grammar().parse(text)
        except UnexpectedInput as error:
            raise _rule_error(error, text) from error
        except LarkError as error:
            raise RuleError("this is not CEL; see the section on expressions of `write rules`") from error


@functools.cache
def _grammar() -> "Lark":
    """cel-python's grammar, by its own parser's options: its parser is one for the process and loses positions."""
    from lark import Lark, Token

    def name(token: Token) -> Token:
        return Token.new_borrow_pos("BOOL_LIT", token.value, token) if token.value in ("true", "false") else token

    return Lark(
        (resources.files("celpy") / "cel.lark").read_text("utf-8"),
        parser="lalr",
        start="expr",
        g_regex_flags=re.M,
        lexer_callbacks={"IDENT": name},
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def _rule_error(error: Any, text: str) -> RuleError:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        end = len(text.rstrip())
        return wrong("the expression ends where more was expected", text, end)
    offset = error.pos_in_stream or 0
    found = str(token) if token is not None else text[offset : offset + 1]
    before = text[:offset].split()
    hint = _HINTS.get(found) or _HINTS.get(before[-1] if before else "", "")
    return wrong(f"{found[:40]!r} is not expected here{hint}", text, offset)


def wrong(sentence: str, text: str, offset: int) -> RuleError:
    """The error at `offset` of the expression `text`."""
    line = text.count("\n", 0, offset) + 1
    return RuleError(sentence, line, offset - (text.rfind("\n", 0, offset) + 1) + 1, offset)


def inner(tree: "Tree[Token]") -> "Tree[Token]":
    """The part that counts: `tree` without the levels of the grammar, and the brackets, that hold only one part."""
    found: Any = tree
    while len(found.children) == 1 and found.data in _CHAIN:
        found = found.children[0]
    return found  # type: ignore[no-any-return]


def parts(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The parts of `tree` that are trees themselves."""
    return [child for child in tree.children if not isinstance(child, str)]


def arguments(tree: "Tree[Token]", at: int) -> "list[Tree[Token]]":
    """What stands in the brackets that are part number `at`; nothing when they are empty."""
    inside: Any = tree.children[at] if len(tree.children) > at else None
    return [] if inside is None else parts(inside)


def chain(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The operands of `a || b || c` (or of &&), from left to right."""
    found: list[Any] = []
    left: Any = tree
    while len(left.children) == 2 and left.data == tree.data:
        found.append(left.children[1])
        left = left.children[0]
    return [left, *reversed(found)]


def source(tree: "Tree[Token]", text: str) -> str:
    """The part of the expression `text` that `tree` is, on one line and not too long to be quoted."""
    flat = " ".join((text if tree.meta.empty else text[tree.meta.start_pos : tree.meta.end_pos]).split())
    return flat if len(flat) <= MAX_QUOTED else flat[: MAX_QUOTED - 1] + "…"


def literal(tree: "Tree[Token]") -> object:
    """The value that is written there. Raises ValueError with a sentence that begins with a verb."""
    token: Any = tree.children[0]
    written = str(token)
    match token.type:
        case "BOOL_LIT":
            return written == "true"
        case "NULL_LIT":
            return None
        case "INT_LIT" | "UINT_LIT":
            return _whole(written.rstrip("uU"))
        case "FLOAT_LIT":
            return float(written)
        case "STRING_LIT" | "MLSTRING_LIT":
            from celpy.evaluation import celstr

            return str(celstr(token))
    raise ValueError("is bytes, which are not available here; write a text")


def _whole(written: str) -> int:
    digits = written.lstrip("-")
    if len(digits) > 20:
        raise ValueError("does not fit into 64 bits")
    found = int(digits, 16 if digits[:2] in ("0x", "0X") else 10) * (-1 if written.startswith("-") else 1)
    if found.bit_length() > 63:
        raise ValueError("does not fit into 64 bits")
    return found
