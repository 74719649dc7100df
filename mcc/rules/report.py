"""The shipped result schema `report`, and how long reports and texts are shortened."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcc.contracts.similar import closest_name
from mcc.rules.errors import SchemaError

REPORT_NAME = "report"
TEXT_NAME = "text"
SHIPPED = (REPORT_NAME, TEXT_NAME)
"""Names that may stand in place of a JSON Schema: `report` is the shipped schema, `text` means no schema."""

MAX_FINDINGS = 20
MAX_EVIDENCE = 2_000
MAX_ARTIFACTS = 10
MAX_CONTENT = 4_000

_TEXT: Mapping[str, Any] = {"type": ["string", "null"]}
_FINDING: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "description": "What is so, in one sentence."},
        "severity": {"enum": ["info", "low", "medium", "high", "critical", None]},
        "path": _TEXT,
        "line": {"type": ["integer", "null"], "minimum": 1},
        "evidence": {**_TEXT, "description": "What shows it, quoted exactly."},
        "confidence": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "recommendation": _TEXT,
    },
    "required": ["title"],
    "additionalProperties": False,
}
_ARTIFACT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "kind": {**_TEXT, "description": "Such as diff, log or table."},
        "path": _TEXT,
        "content": {"type": "string"},
    },
    "required": ["name", "content"],
    "additionalProperties": False,
}
_STEP: Mapping[str, Any] = {
    "type": "object",
    "properties": {"id": _TEXT, "title": {"type": "string", "minLength": 1}, "status": _TEXT},
    "required": ["title"],
    "additionalProperties": False,
}
_TEXTS: Mapping[str, Any] = {"type": ["array", "null"], "items": {"type": "string"}}

REPORT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {
            "enum": ["completed", "blocked", "failed"],
            "description": "blocked: you tried, and what you need is out of reach. failed: it cannot be done.",
        },
        "summary": {"type": "string", "minLength": 1, "description": "The answer, complete in itself."},
        "steps": {"type": ["array", "null"], "items": _STEP},
        "findings": {
            "type": ["array", "null"],
            "items": _FINDING,
            "description": f"The most important first, {MAX_FINDINGS} at most.",
        },
        "artifacts": {
            "type": ["array", "null"],
            "items": _ARTIFACT,
            "description": "Texts that others need whole.",
        },
        "recommended_next_actions": _TEXTS,
    },
    "required": ["status", "summary"],
    "additionalProperties": False,
}
"""The JSON Schema named `report`. Lists and texts that are too long are not errors: `shortened` cuts them."""


def resolved(result: object) -> Mapping[str, Any] | bool | None:
    """The JSON Schema for the value `result` of an agent file or an order; None = text, no schema.

    `report` and `{$ref: report}` are the shipped schema; a custom schema may refer to it by `{$ref: report}`.
    Raises `SchemaError` for a name that is not shipped. Pass the returned schema to `checked_schema`.
    """
    if result is None or result == TEXT_NAME:
        return None
    if result == REPORT_NAME or (isinstance(result, Mapping) and dict(result) == {"$ref": REPORT_NAME}):
        return REPORT
    if isinstance(result, str):
        near = closest_name(result, SHIPPED)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(SHIPPED)}"
        raise SchemaError(f"{result[:60]!r} is not shipped; {hint}")
    if isinstance(result, bool):
        return result
    if not isinstance(result, Mapping):
        raise SchemaError("write a JSON Schema, or the name of a shipped one (report, text)")
    return _with_report(result)


def _with_report(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    rewritten, found = _report_refs_rewritten(schema, 0)
    if not found:
        return schema
    definitions = rewritten.get("$defs", {})
    if not isinstance(definitions, Mapping) or definitions.get(REPORT_NAME, REPORT) != REPORT:
        raise SchemaError("this name is taken by the shipped schema that $ref: report means", f"$defs.{REPORT_NAME}")
    return {**rewritten, "$defs": {**definitions, REPORT_NAME: REPORT}}


def _report_refs_rewritten(schema: Any, level: int) -> tuple[Any, bool]:
    """`schema` with each `$ref: report` pointing into its `$defs`, and whether there was one."""
    if level > 100:
        raise SchemaError("this schema is nested deeper than 100 levels")
    if isinstance(schema, Mapping):
        pairs = {
            key: (f"#/$defs/{REPORT_NAME}", True)
            if key == "$ref" and item == REPORT_NAME
            else _report_refs_rewritten(item, level + 1)
            for key, item in schema.items()
        }
        return {key: item for key, (item, _) in pairs.items()}, any(changed for _, changed in pairs.values())
    if isinstance(schema, list | tuple):
        items = [_report_refs_rewritten(item, level + 1) for item in schema]
        return [item for item, _ in items], any(changed for _, changed in items)
    return schema, False


def shortened(report: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """`report` cut to the sizes that a parent agent reads (`MAX_…` above), and whether anything was cut.

    A cut text ends with a mark that says how much is missing; a cut list keeps its first items. Everything else stays
    unchanged, even what does not fit the schema.
    """
    findings, cut_findings = _shortened_items(report.get("findings"), MAX_FINDINGS, "evidence", MAX_EVIDENCE)
    artifacts, cut_artifacts = _shortened_items(report.get("artifacts"), MAX_ARTIFACTS, "content", MAX_CONTENT)
    short = dict(report)
    for key, items in (("findings", findings), ("artifacts", artifacts)):
        if key in report:
            short[key] = items
    return short, cut_findings or cut_artifacts


def _shortened_items(items: object, most: int, key: str, characters: int) -> tuple[object, bool]:
    if not isinstance(items, list | tuple):
        return items, False
    pairs = [_shortened_item(item, key, characters) for item in items[:most]]
    return [item for item, _ in pairs], len(items) > most or any(was_cut for _, was_cut in pairs)


def _shortened_item(item: object, key: str, characters: int) -> tuple[object, bool]:
    text = item.get(key) if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(text, str) or len(text) <= characters:
        return item, False
    return {**item, key: cut(text, characters)}, True


def few(sentences: Sequence[str], most: int, characters: int) -> tuple[str, ...]:
    """The first `most` sentences, each cut to `characters`; if there are more, a last sentence says how many."""
    shown = tuple(cut(sentence, characters) for sentence in sentences[:most])
    more = len(sentences) - most
    return (*shown, f"And {more:,} more.") if more > 0 else shown


def cut(text: str, characters: int) -> str:
    """`text` in at most `characters` characters (100 or more); a mark at its end says how many were cut."""
    if len(text) <= characters:
        return text
    # Room for the longest possible mark: the final figure never has more digits than the length of the whole text.
    kept = characters - len(_mark(len(text)))
    return text[:kept] + _mark(len(text) - kept)


def _mark(missing: int) -> str:
    return f"… [{missing:,} characters cut]"
