"""Symbols of a source file, by tree-sitter: what is declared where; found in a process aside of the drone.

That process loads this module alone, so it imports little.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any

MOST = 5_000
"""Symbols of a file that are looked at."""

DEEPEST = 8
"""Symbols within symbols that are told; what is declared deeper is not."""

_NAME = 120

_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "bash": (".sh", ".bash"),
    "c": (".c",),
    "cpp": (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    "csharp": (".cs",),
    "go": (".go",),
    "java": (".java",),
    "javascript": (".js", ".cjs", ".mjs", ".jsx"),
    "kotlin": (".kt", ".kts"),
    "lua": (".lua",),
    "php": (".php",),
    "python": (".py", ".pyi"),
    "ruby": (".rb", ".rake"),
    "rust": (".rs",),
    "scala": (".scala",),
    "swift": (".swift",),
    "tsx": (".tsx",),
    "typescript": (".ts", ".cts", ".mts"),
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
SUFFIXES = tuple(_BY_SUFFIX)

_NODES: Mapping[str, str] = {
    "function": "function_definition function_declaration function_item function_signature function_signature_item "
    "generator_function_declaration local_function_statement method method_definition method_declaration method_elem "
    "method_signature abstract_method_signature singleton_method protocol_function_declaration init_declaration "
    "constructor_declaration secondary_constructor destructor_declaration",
    "class": "class class_definition class_declaration class_specifier",
    "abstract class": "abstract_class_declaration",
    "annotation": "annotation_type_declaration",
    "enum": "enum_specifier enum_declaration enum_item enum_definition",
    "impl": "impl_item",
    "interface": "interface_declaration",
    "macro": "macro_definition preproc_function_def",
    "module": "module mod_item file_scoped_namespace_declaration",
    "namespace": "namespace_definition namespace_declaration internal_module",
    "object": "object_declaration object_definition companion_object",
    "protocol": "protocol_declaration",
    "record": "record_declaration",
    "struct": "struct_specifier struct_declaration struct_item",
    "trait": "trait_declaration trait_item trait_definition",
    "type": "type_alias_declaration type_alias type_definition type_item type_spec alias_declaration "
    "delegate_declaration",
    "union": "union_specifier union_item",
}
_KINDS = {node: kind for kind, nodes in _NODES.items() for node in nodes.split()}
"""What a node of a syntax tree declares; the names are those that the grammars of all languages use."""

_HOLDING = ("variable_declarator", "public_field_definition", "field_definition", "pair", "assignment_expression")
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "function", "generator_function", "class"})
"""In JavaScript and TypeScript functions are values, of what holds them they have their name."""

_PROTOTYPES = ("declaration", "field_declaration")
_WITH_BODY = frozenset({"struct_specifier", "enum_specifier", "union_specifier", "class_specifier"})
_WORDS = frozenset({"class", "interface", "struct", "enum", "extension", "actor"})
"""Of what is a class, a struct or an interface in one and the same node (Kotlin, Swift) the word itself says which."""

_IDENTIFIERS = frozenset({"identifier", "simple_identifier", "type_identifier", "property_identifier"})


@dataclass(frozen=True, slots=True)
class Symbol:
    """`first` and `last` are lines, from 1; `depth` counts the symbols around it."""

    kind: str
    name: str
    first: int
    last: int
    depth: int


@dataclass(frozen=True, slots=True)
class Symbols:
    """In the order of the file, each before what it holds. `is_whole`: all of the source could be parsed, and there
    were no more than `MOST`."""

    found: tuple[Symbol, ...]
    is_whole: bool


def problem() -> str | None:
    """Why no symbols can be found here, and what to do about it."""
    if find_spec("tree_sitter") and find_spec("tree_sitter_language_pack"):
        return None
    return "tree-sitter is not installed: pip install 'mcc[outline]'"


def language_of(path: str) -> str | None:
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def finding() -> Callable[[Any], object]:
    """Made in the process aside: answers `[language, text]` with the fields of `Symbols`."""
    return lambda question: _found(str(question[0]), str(question[1]).encode("utf-8", "replace"))


def _found(language: str, source: bytes) -> dict[str, object]:
    from tree_sitter import Query, QueryCursor
    from tree_sitter_language_pack import get_language, get_parser

    grammar = get_language(language)  # type: ignore[arg-type]
    ids = {one: grammar.id_for_node_kind(one, True) for one in (*_KINDS, *_HOLDING, *_PROTOTYPES)}
    known = [one for one, known_id in ids.items() if known_id and grammar.node_kind_is_visible(known_id)]
    root = get_parser(language).parse(source).root_node  # type: ignore[arg-type]
    nodes = QueryCursor(Query(grammar, f"[{' '.join(f'({one})' for one in known)}] @it")).captures(root).get("it", [])
    nodes.sort(key=lambda node: (node.start_byte, -node.end_byte))
    found: list[tuple[str, str, int, int, int]] = []
    for one in _nested(nodes):
        if len(found) == MOST:
            return {"found": found, "is_whole": False}
        found.append(one)
    return {"found": found, "is_whole": not root.has_error}


def _nested(nodes: list[Any]) -> Iterator[tuple[str, str, int, int, int]]:
    """The fields of each `Symbol`."""
    around: list[tuple[int, str]] = []
    for node in nodes:
        while around and around[-1][0] <= node.start_byte:
            around.pop()
        kind, name = _declared(node)
        if not name:
            continue
        if kind == "function" and around and around[-1][1] not in ("function", "method", "namespace", "module"):
            kind = "method"
        if len(around) < DEEPEST:
            first, last = node.start_point.row + 1, node.end_point.row + (node.end_point.column > 0)
            yield kind, name, first, max(first, last), len(around)
        around.append((node.end_byte, kind))


def _declared(node: Any) -> tuple[str, str]:
    """Kind and name; no name where the node declares nothing that is told."""
    if node.type in _HOLDING:
        held = next(filter(None, map(node.child_by_field_name, ("value", "right"))), None)
        if held is None or held.type not in _FUNCTION_VALUES:
            return "", ""
        named = next(filter(None, map(node.child_by_field_name, ("name", "property", "key", "left"))), None)
        return "class" if held.type == "class" else "function", _text(named)
    if node.type in _PROTOTYPES:
        named, is_function = _innermost(node)
        return "function", _text(named) if is_function else ""
    if node.type in _WITH_BODY and node.child_by_field_name("body") is None:
        return "", ""
    if node.type == "impl_item":
        what = [_text(node.child_by_field_name(field)) for field in ("trait", "type")]
        return "impl", " for ".join(filter(None, what))
    return _kind(node), _named(node)


def _kind(node: Any) -> str:
    if node.type == "class_declaration":
        return next((child.type for child in node.children if child.type in _WORDS), "class")
    return _KINDS[node.type]


def _named(node: Any) -> str:
    named = node.child_by_field_name("name") or _innermost(node)[0]
    if named is None:
        named = next((child for child in node.children if child.type in _IDENTIFIERS), None)
    if named is None and node.type == "companion_object":
        return "companion"
    receiver = node.child_by_field_name("receiver")
    return f"{_text(receiver)} {_text(named)}" if receiver is not None else _text(named)


def _innermost(node: Any) -> tuple[Any, bool]:
    """The name at the end of C's declarators, and whether it is a function's."""
    named, is_function = None, False
    while (inner := node.child_by_field_name("declarator")) is not None:
        named, node, is_function = inner, inner, inner.type == "function_declarator" or is_function
    return named, is_function


def _text(node: Any) -> str:
    return "" if node is None else " ".join(node.text[: 4 * _NAME].decode("utf-8", "replace").split())[:_NAME]
