"""The symbols that a source file declares, found by tree-sitter in a separate process.

That process loads only this module, so it imports little.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any

MOST = 5_000
"""Symbols that are collected of one file."""

DEEPEST = 8
"""Levels of nested symbols that are collected."""

_NAME_LENGTH = 120

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
"""The kind of symbol that a syntax tree's node declares; one table holds the node names of all grammars."""

_HOLDING = ("variable_declarator", "public_field_definition", "field_definition", "pair", "assignment_expression")
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "function", "generator_function", "class"})
"""In JavaScript and TypeScript a function or class may be a value, named by the variable or field that holds it."""

_PROTOTYPES = ("declaration", "field_declaration")
_WITH_BODY = frozenset({"struct_specifier", "enum_specifier", "union_specifier", "class_specifier"})
_WORDS = frozenset({"class", "interface", "struct", "enum", "extension", "actor"})
"""Kotlin and Swift use one node for classes, structs and interfaces; its keyword tells them apart."""

_IDENTIFIERS = frozenset({"identifier", "simple_identifier", "type_identifier", "property_identifier"})


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol: `first` and `last` are its lines, from 1; `depth` is the number of symbols that enclose it."""

    kind: str
    name: str
    first: int
    last: int
    depth: int


@dataclass(frozen=True, slots=True)
class Symbols:
    """A file's symbols in its order, outer before inner. `is_whole`: all of the source was parsed, and it has at most
    `MOST` symbols."""

    found: tuple[Symbol, ...]
    is_whole: bool


def problem() -> str | None:
    """Why no symbols can be found here and what to do about it, None if they can."""
    if find_spec("tree_sitter") and find_spec("tree_sitter_language_pack"):
        return None
    return "tree-sitter is not installed: pip install 'mcc[outline]'"


def language_of(path: str) -> str | None:
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def symbol_finder() -> Callable[[Any], object]:
    """The function that the separate process runs: from `[language, text]` to the fields of `Symbols`."""
    return lambda question: _find(str(question[0]), str(question[1]).encode("utf-8", "replace"))


def _find(language: str, source: bytes) -> dict[str, object]:
    from tree_sitter import Query, QueryCursor
    from tree_sitter_language_pack import get_language, get_parser

    grammar = get_language(language)  # type: ignore[arg-type]
    ids = {kind: grammar.id_for_node_kind(kind, True) for kind in (*_KINDS, *_HOLDING, *_PROTOTYPES)}
    known = [kind for kind, kind_id in ids.items() if kind_id and grammar.node_kind_is_visible(kind_id)]
    root = get_parser(language).parse(source).root_node  # type: ignore[arg-type]
    query = Query(grammar, f"[{' '.join(f'({kind})' for kind in known)}] @it")
    nodes = QueryCursor(query).captures(root).get("it", [])
    nodes.sort(key=lambda node: (node.start_byte, -node.end_byte))
    symbols: list[tuple[str, str, int, int, int]] = []
    for fields in _symbol_fields(nodes):
        if len(symbols) == MOST:
            return {"found": symbols, "is_whole": False}
        symbols.append(fields)
    return {"found": symbols, "is_whole": not root.has_error}


def _symbol_fields(nodes: list[Any]) -> Iterator[tuple[str, str, int, int, int]]:
    """The fields of each `Symbol`; `nodes` are in the order of the file, outer before inner."""
    enclosing: list[tuple[int, str]] = []
    for node in nodes:
        while enclosing and enclosing[-1][0] <= node.start_byte:
            enclosing.pop()
        kind, name = _kind_and_name(node)
        if not name:
            continue
        if kind == "function" and enclosing and enclosing[-1][1] not in ("function", "method", "namespace", "module"):
            kind = "method"
        if len(enclosing) < DEEPEST:
            first, last = node.start_point.row + 1, node.end_point.row + (node.end_point.column > 0)
            yield kind, name, first, max(first, last), len(enclosing)
        enclosing.append((node.end_byte, kind))


def _kind_and_name(node: Any) -> tuple[str, str]:
    """Kind and name of the symbol; the name is empty if the node declares none."""
    if node.type in _HOLDING:
        value = next(filter(None, map(node.child_by_field_name, ("value", "right"))), None)
        if value is None or value.type not in _FUNCTION_VALUES:
            return "", ""
        holder = next(filter(None, map(node.child_by_field_name, ("name", "property", "key", "left"))), None)
        return "class" if value.type == "class" else "function", _text(holder)
    if node.type in _PROTOTYPES:
        declared, is_function = _innermost_declarator(node)
        return "function", _text(declared) if is_function else ""
    if node.type in _WITH_BODY and node.child_by_field_name("body") is None:
        return "", ""
    if node.type == "impl_item":
        names = [_text(node.child_by_field_name(field)) for field in ("trait", "type")]
        return "impl", " for ".join(filter(None, names))
    if node.type == "class_declaration":
        return next((child.type for child in node.children if child.type in _WORDS), "class"), _name(node)
    return _KINDS[node.type], _name(node)


def _name(node: Any) -> str:
    named = node.child_by_field_name("name") or _innermost_declarator(node)[0]
    if named is None:
        named = next((child for child in node.children if child.type in _IDENTIFIERS), None)
    if named is None and node.type == "companion_object":
        return "companion"
    receiver = node.child_by_field_name("receiver")
    return f"{_text(receiver)} {_text(named)}" if receiver is not None else _text(named)


def _innermost_declarator(node: Any) -> tuple[Any, bool]:
    """The node with the name inside C's nested declarators, and whether it declares a function."""
    innermost, is_function = None, False
    while (inner := node.child_by_field_name("declarator")) is not None:
        innermost, node, is_function = inner, inner, inner.type == "function_declarator" or is_function
    return innermost, is_function


def _text(node: Any) -> str:
    return (
        ""
        if node is None
        else " ".join(node.text[: 4 * _NAME_LENGTH].decode("utf-8", "replace").split())[:_NAME_LENGTH]
    )
