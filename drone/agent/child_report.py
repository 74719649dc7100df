"""What a parent is told of its child: the report within bounds, and the handle of the whole."""

from collections.abc import Mapping
from typing import Any

from drone.agent.artifacts import Artifacts, handle_of
from drone.agent.report import Report
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.rules.report import cut, shortened

TEXT_CHARACTERS = 16_000
"""Characters of a child's text, or of a result of its own shape as JSON, that its parent is told."""

REPORT_CHARACTERS = 100_000
"""Characters of a report as JSON, beyond which only its status and summary are told."""

STRING_CHARACTERS = 2_000
"""Characters of one text inside a result of its own shape, when that is too long as a whole."""

_SHORTENED = "This is shortened; the artifact has the whole."
_WORDS = {RecordStatus.COMPLETED: "completed", RecordStatus.FAILED: "failed"}
_LISTS = ("steps", "findings", "artifacts", "recommended_next_actions")
_OF_A_REPORT = frozenset({"status", "summary", *_LISTS})


async def as_report(report: Report, artifacts: Artifacts) -> tuple[dict[str, Any], str | None]:
    """One child as a JSON object, for calls that run several; the digest of the whole when it is shortened.

    It has the keys of a report, or `{status, result, …}` for a result of its own shape. `whole` names the artifact
    with everything that is left out. Raises `JournalError`.
    """
    whole = whole_of(report)
    short, is_cut = _short(whole)
    if not is_cut:
        return short, None
    text = to_json(whole).decode()
    digest = await artifacts.kept(text)
    kept = {"artifact": handle_of(digest), "characters": len(text), "note": _SHORTENED}
    return {**short, "whole": kept}, digest


def whole_of(report: Report) -> dict[str, Any]:
    """A child's report with nothing left out, made of what its journal entries say."""
    status = _WORDS.get(report.status, "blocked")
    ids = {
        "meta": {"rounds": report.rounds, "usage": report.usage.model_dump(), "effective_model": report.model},
        "record_id": report.record_id,
    }
    if report.error is not None:
        return {**_shaped({"status": status, "summary": _why(report)}, report), **ids}
    if report.result is None:
        return {**_shaped({"status": status, "summary": report.text}, report), **ids}
    if _is_report(report.result):
        return {**_shaped(report.result, report), **ids}
    return {"status": status, "result": report.result, **ids}


def _shaped(said: Any, report: Report) -> dict[str, Any]:
    return {
        "status": said["status"],
        "summary": said["summary"],
        "role": report.agent,
        "display_name": report.title or report.agent,
        **{name: said.get(name) or [] for name in _LISTS},
    }


def _is_report(result: object) -> bool:
    """Whether it can be told as a report without losing anything."""
    return (
        isinstance(result, Mapping)
        and result.keys() <= _OF_A_REPORT
        and isinstance(result.get("status"), str)
        and isinstance(result.get("summary"), str)
        and all(isinstance(result.get(name) or [], list) for name in _LISTS)
    )


def _why(report: Report) -> str:
    so_far = f"What it had so far:\n{report.text}" if report.text else "It had nothing to tell yet."
    return f"The agent stopped before it was done: {report.error}. {so_far}"


def _short(whole: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    if "summary" not in whole:
        result, is_cut = _short_result(whole["result"])
        return {**whole, "result": result}, is_cut
    short, is_cut = shortened(whole)
    summary = cut(short["summary"], TEXT_CHARACTERS)
    is_cut = is_cut or summary != short["summary"]
    short = {**short, "summary": summary}
    if len(to_json(short).decode()) <= REPORT_CHARACTERS:
        return short, is_cut
    return {**short, **{name: [] for name in _LISTS}}, True


def _short_result(result: object) -> tuple[object, bool]:
    """The result, with its texts cut when it is too long as JSON, or the beginning of that JSON when it still is."""
    text = to_json(result).decode()
    if len(text) <= TEXT_CHARACTERS:
        return result, False
    trimmed = _trimmed(result)
    return (trimmed if len(to_json(trimmed).decode()) <= TEXT_CHARACTERS else cut(text, TEXT_CHARACTERS)), True


def _trimmed(value: object) -> object:
    match value:
        case str():
            return cut(value, STRING_CHARACTERS)
        case Mapping():
            return {key: _trimmed(item) for key, item in value.items()}
        case list() | tuple():
            return [_trimmed(item) for item in value]
        case _:
            return value


async def as_text(report: Report, artifacts: Artifacts) -> tuple[str, str | None]:
    """One child as a text with its record's id; the digest of the whole when it is shortened. Raises `JournalError`."""
    last = f"\n\nrecord_id: {report.record_id}"
    if len(report.text) <= TEXT_CHARACTERS:
        return report.text + last, None
    digest = await artifacts.kept(report.text)
    return f"{cut(report.text, TEXT_CHARACTERS)}\nThe whole text is the artifact {handle_of(digest)}.{last}", digest
