"""CEL text into a syntax tree: read by cel-python's grammar, refused with its position."""

import functools
import threading
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

from mcc.rules.errors import RuleError
from mcc.rules.tokens import MAX_QUOTED, Words, hint, wrong

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_CHARACTERS = 4_000
"""Length of an expression."""
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
    """cel-python's grammar over words of our own: its terminals are read by backtracking (docs/decisions/14)."""
    from lark import Lark
    from lark.lexer import Lexer, LexerState

    class Reader(Lexer):
        """`Words` as lark asks for them."""

        __future_interface__ = 2

        def __init__(self, conf: Any) -> None:
            self._words = Words(conf)

        def lex(self, lexer_state: LexerState, parser_state: object) -> "Iterator[Token]":
            return self._words.lex(lexer_state.text.text)

    return Lark(
        (resources.files("celpy") / "cel.lark").read_text("utf-8"),
        parser="lalr",
        lexer=Reader,
        start="expr",
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def _rule_error(error: Any, text: str) -> RuleError:
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        return wrong("the expression ends where more was expected", text, len(text.rstrip()))
    before = text[: token.start_pos].split()
    return wrong(
        f"{str(token)[:40]!r} is not expected here{hint(str(token), before[-1] if before else '')}",
        text,
        token.start_pos,
    )


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
