"""A script as it is sent: without the blanks that a person reads it by, and with short names. It says the same.

Strings, expressions, keys, and what a template draws stay as they are; line ends stay wherever one could end a
statement. Names that the script declares are short (`naming`). In the place of an `html` template stand the calls of
`h` (`island/base.js`) that make its elements, each with a tag and classes, attributes, and what is in it. Its texts end
and begin without blanks where a line ends among them; `${" "}` is a blank that stays.

It is no minifier for any script: ours have semicolons, declare what they use, have `{ }` about what a loop does, and
end a line with its operator. What else there is, is refused.
"""

from collections.abc import Callable, Iterable, Sequence

from mcc.console.naming import Name, Shorthand, Unreadable, renamed, renamed_apart
from mcc.rules.patterns import Pattern

_PIECE = Pattern(r"\w+|\s+|\\.|.", across=True)
_BLANKS_AT_AN_END = Pattern(r"^\s+|\s+$")
_BREAK = Pattern(r"\s*\n\s*")
_CLASSES = Pattern(r'"[\w -]+"')
_KEY = Pattern(r"[A-Za-z_]\w*")

_AFTER_WHICH_NOTHING_ENDS = frozenset("([{,;?:&|=<>*.)}")
_BEFORE_WHICH_NOTHING_ENDS = frozenset(")]},;.?:&|=<>*")
_SHORT_WORDS = {"true": "!0", "false": "!1"}
_BEFORE_A_HEAD = frozenset(("for", "if", "while"))
_BEFORE_AN_OBJECT = frozenset((*"(,=[:?&|!.", "let", "return", "default"))
_BEFORE_AN_EXPRESSION = frozenset("([{,;=:?&|!>")
"""What a slash follows that begins a regular expression, and does not divide."""

_WORDS = """as async await break case catch class const continue default do else export extends finally for from
function get if import in instanceof let new null of return set static super switch this throw try typeof undefined var
void while yield"""
NOT_RENAMED = frozenset(_WORDS.split())
"""Words of the language."""


def squeezed(script: str) -> str:
    """The script with fewer blanks and short names. It has to be written as ours is, with semicolons."""
    return renamed(_tokens(script), NOT_RENAMED)


def squeezed_apart(first: str, second: str, file: str) -> tuple[str, str]:
    """Two scripts, the second of which uses what the first declares, and imports it from this `file`."""
    return renamed_apart(_tokens(first), _tokens(second), NOT_RENAMED, file)


def _tokens(script: str) -> list[str]:
    return _Reader(_PIECE.findall(script)).code("")


def _between(before: str, blanks: str, after: str) -> str:
    """What has to stay of the blanks between these two characters."""
    if not blanks or not before:
        return ""
    if "\n" in blanks and before not in _AFTER_WHICH_NOTHING_ENDS and after not in _BEFORE_WHICH_NOTHING_ENDS:
        return "\n"
    is_one_word = (before.isalnum() or before in "_$") and (after.isalnum() or after in "_$")
    return " " if is_one_word or (before == after and before in "+-") else ""


def _is_one_name_in_brackets(written: Sequence[str]) -> bool:
    return len(written) == 3 and written[0] == "(" and written[2] == ")" and _KEY.fullmatch(written[1]) is not None


class _Reader:
    """Goes through the pieces once; each method reads on from where the last one stopped."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces
        self._at = 0

    def _next(self) -> str:
        self._at += 1
        return self._pieces[self._at - 1] if self._at <= len(self._pieces) else ""

    def _peek(self) -> str:
        return self._pieces[self._at] if self._at < len(self._pieces) else ""

    def code(self, end: str) -> list[str]:
        """Code up to the `end` that nothing in it opened, which is read as well; as tokens."""
        written = [""]
        blanks, depth = "", 0
        holds_keys, heads, after_head = list[bool](), list[bool](), False
        while piece := self._next():
            if piece.isspace() or self._skip_comment(piece):
                # After an operator between two values, a statement goes on.
                goes_on = written[-1] in ("/", "%") or (written[-1] in ("+", "-") and written[-2] != written[-1])
                blanks += "\n" if "\n" in piece and not goes_on else " "
                continue
            depth += (piece == "{") - (piece == "}")
            if depth < 0:
                break
            last = written[-1]
            is_spare = last == "," and piece in ")]}" and "\n" in blanks
            if is_spare or (last == ";" and piece == "}" and not (written[-2] == ")" and after_head)):
                written.pop()
            elif kept := _between(last[-1:], blanks, piece[0]):
                written.append(kept)
            if piece in ("(", "[", "{"):
                holds_keys.append(piece == "{" and (last in _BEFORE_AN_OBJECT or not last))
                heads.append(last in _BEFORE_A_HEAD)
            elif piece in (")", "]", "}") and holds_keys:
                holds_keys.pop()
                after_head = heads.pop()
            if (
                piece == ">"
                and last == "="
                and written[-2:-1] == [")"]
                and _KEY.fullmatch(written[-3])
                and written[-4] == "("
            ):
                # One parameter needs no brackets.
                written[-4:-1] = [" " if written[-5] == "async" else "", written[-3]]
            is_property = last == "$" or (last == "." and written[-3:-1] != [".", "."])
            is_key = bool(holds_keys) and holds_keys[-1] and last in ("{", ",")
            if piece == "const":
                written.append("let")
            elif (piece[0].isalpha() or piece[0] == "_") and not is_property:
                written.append(self._named(piece, is_key))
            elif piece == "`" and last == "html":
                written[-1:] = self._elements()
            elif piece == "`":
                written += self._with_insertions("`")
            else:
                digits = piece.replace("_", "") if piece[0].isdigit() else piece
                written.append(digits + self._rest_of_literal(piece, last))
            blanks = ""
        if end != piece:
            raise Unreadable(f"The script ends before {end or 'the end'}, at piece {self._at}.")
        return written[1:]

    def _named(self, name: str, is_key: bool) -> str:
        """A word as a token."""
        following = next((piece for piece in self._pieces[self._at : self._at + 2] if not piece.isspace()), "")
        if is_key and following in (":", "("):
            return name
        if name in _SHORT_WORDS:
            return _SHORT_WORDS[name]
        return Shorthand(name) if is_key else Name(name)

    def _skip_comment(self, piece: str) -> bool:
        if piece != "/" or self._peek() not in ("/", "*"):
            return False
        if self._next() == "/":
            while self._peek() and "\n" not in self._peek():
                self._next()
        else:
            self._until(lambda passed: passed == "*" and self._peek() == "/")
            self._next()
        return True

    def _until(self, is_end: Callable[[str], bool]) -> str:
        """All pieces up to the first that is the end, with it."""
        begun = self._at
        while piece := self._next():
            if is_end(piece):
                return "".join(self._pieces[begun : self._at])
        raise Unreadable(f"Nothing ends what begins at piece {begun}.")

    def _rest_of_literal(self, piece: str, last: str) -> str:
        """What follows a piece that begins a string or a regular expression after `last`; else nothing."""
        if piece in ('"', "'"):
            return self._until(lambda passed: passed == piece)
        if piece == "/" and (last[-1:] in _BEFORE_AN_EXPRESSION or last == "return"):
            expression = self._until(lambda passed: passed in ("/", "["))
            while expression.endswith("["):
                expression += self._until(lambda passed: passed == "]")
                expression += self._until(lambda passed: passed in ("/", "["))
            return expression
        return ""

    def _with_insertions(self, quote: str) -> list[str]:
        """A text up to the quote, as a template: tokens up to each insertion, and from its end."""
        tokens = ["`"]
        while (piece := self._next()) != quote:
            if not piece:
                raise Unreadable("The script ends in a template.")
            if self._begins_insertion(piece):
                tokens[-1] += "${"
                tokens += self._expression()
                tokens.append("}")
            else:
                tokens[-1] += piece
        tokens[-1] += "`"
        return tokens

    def _begins_insertion(self, piece: str) -> bool:
        return piece == "$" and self._peek() == "{"

    def _expression(self) -> list[str]:
        """What stands in an insertion."""
        self._next()
        return self.code("}")

    def _elements(self) -> list[str]:
        """The rest of an `html` template, as the calls that make what it draws: a list, if that is not one."""
        opened = [_Element([])]
        while piece := self._next():
            if self._begins_insertion(piece):
                opened[-1].add(self._expression())
            elif piece == "<":
                closes = self._peek() == "/"
                head, is_whole = self._tag()
                if not closes:
                    opened.append(_Element(head))
                if closes or is_whole:
                    made = opened.pop().made()
                    if not opened:
                        break
                    opened[-1].add(made)
            elif piece == "`" and len(opened) > 1:
                break
            elif piece == "`":
                drawn = opened[0].drawn()
                return drawn[0] if len(drawn) == 1 else ["[", *_listed(drawn), "]"]
            else:
                opened[-1].text += piece
        raise Unreadable(f"In the template that ends at piece {self._at}, not every tag is closed once.")

    def _tag(self) -> tuple[list[str], bool]:
        """The rest of a tag, as what comes first in the call of its element; and whether nothing is in the element."""
        has_name = self._peek() != "$"
        words, before = [[""]], ""
        while (piece := self._next()) != ">":
            if self._begins_insertion(piece):
                words[-1] += self._expression()
            elif piece in ("'", '"'):
                value = self._with_insertions(piece)
                words[-1] += value if len(value) > 1 else [_as_string(value[0][1:-1])]
            elif not piece:
                raise Unreadable("The script ends in a tag.")
            elif piece.isspace():
                words.append([""])
            elif piece == "=":
                words[-1] = [_as_key(words[-1][0]), ":"]
            elif before == "=":
                raise Unreadable(f"The value {piece} has no quotes.")
            elif piece != "/":
                words[-1][0] += piece
            before = piece
        (kind, *words), named = words, [word for word in words[1:] if word[:2] == ["class", ":"]]
        if has_name and named and _CLASSES.fullmatch(named[0][2]):
            kind[0] += f" {named[0][2][1:-1]}"
            words.remove(named[0])
        said = [word if len(word) > 1 else [f"{_as_key(word[0])}:!0"] for word in words if word != [""]]
        attributes = said[0][1:] if len(said) == 1 and said[0][0] == "..." else ["{", *_listed(said), "}"]
        return [*([_as_string(kind[0])] if has_name else kind[1:]), ",", *attributes], before == "/"


def _listed(items: Iterable[Sequence[str]]) -> list[str]:
    """The tokens of all, with a comma between two."""
    return [token for item in items for token in (",", *item)][1:]


def _as_string(text: str) -> str:
    return '"{}"'.format(text.replace('"', '\\"').replace("\n", "\\n"))


def _as_key(name: str) -> str:
    return name if _KEY.fullmatch(name) else _as_string(name)


class _Element:
    """What is drawn in an element, while it is read. `text`: what has not been added yet."""

    def __init__(self, head: Sequence[str]) -> None:
        """`head`: its tag and attributes."""
        self._head = head
        self._drawn: list[list[str]] = []
        self._said = ""
        self.text = ""

    def add(self, drawn: list[str]) -> None:
        self._end_text()
        if drawn == ['" "']:
            self._said += " "
            return
        self._end_words()
        self._drawn.append(drawn)

    def drawn(self) -> Sequence[list[str]]:
        """All of it, each as an expression."""
        self._end_text()
        self._end_words()
        return self._drawn

    def made(self) -> list[str]:
        """The call that makes the element."""
        drawn = self.drawn()
        head = self._head
        if head[-3:] == [",", "{", "}"]:
            # Where a tag has none, a text may stand in their place.
            takes_text = drawn and all(token[0] == '"' for token in (head[0], *drawn[0]))
            head = [*head[:-3], *((",", "0") if drawn and not takes_text else ())]
        return [Name("h"), "(", *_listed([head, *drawn]), ")"]

    def _end_text(self) -> None:
        # Without blanks at either end, if a line ends among them.
        trimmed = _BLANKS_AT_AN_END.sub(lambda blanks: "" if "\n" in blanks[0] else str(blanks[0]), self.text)
        self._said += _BREAK.sub(" ", trimmed)
        self.text = ""

    def _end_words(self) -> None:
        if self._said:
            self._drawn.append([_as_string(self._said)])
        self._said = ""
