"""What a reviewer looks out for: patterns in sources that often deserve a second look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drone.models.offline.facts import Severity
from drone.models.offline.request import Trade


@dataclass(frozen=True, slots=True)
class Watch:
    """`pattern` is RE2 syntax over one line; `languages` None = all of them. `is_secret`: not to be repeated."""

    title: str
    severity: Severity
    pattern: str
    languages: frozenset[str] | None = None
    is_secret: bool = False

    def fits(self, languages: Sequence[str]) -> bool:
        return self.languages is None or not self.languages.isdisjoint(languages)


_SCRIPTS = frozenset({"Python", "JavaScript", "TypeScript", "Ruby", "PHP"})
_NATIVE = frozenset({"C", "C++"})
_COMPILED = frozenset({"Rust", "Go", "C"})

_SILENCED = r"# type: ignore|# noqa|eslint-disable|@ts-ignore|#!?\[allow\("
_UNCHECKED = r"verify=False|InsecureSkipVerify|rejectUnauthorized: *false"
_UNFINISHED = r"(^|\s)(#+|//+|/\*+|\*|--|;+|<!--)[^\"'=]*\b(TODO|FIXME|XXX|HACK)\b"
_SECRET = r"(?i)(api_?key|secret|passw(or)?d|token)\w*\s*[:=]\s*[\"'][\w+/-]{16,}[\"']"

WATCHED: Mapping[Trade, Sequence[Watch]] = {
    "": (),
    "review": (
        Watch("Marked as unfinished", "info", _UNFINISHED),
        Watch("Errors that nobody hears of", "warning", r"except( \w+)?:\s*pass$|catch\s*(\([^)]*\))?\s*\{\s*\}"),
        Watch("Checks that were silenced", "info", _SILENCED),
        Watch("Left over from debugging", "warning", r"\bbreakpoint\(\)|\bpdb\.set_trace|^\s*debugger;|\bdbg!\("),
        Watch("Ends the program on an error", "info", r"\.unwrap\(\)|\bpanic!?\(|\babort\(\)", _COMPILED),
    ),
    "security": (
        Watch("Text that is run as code", "warning", r"(^|[^.\w])(eval|exec)\(", _SCRIPTS),
        Watch("A shell is started", "warning", r"shell=True|\bos\.system\(|child_process|\bpopen\(|(^|[^.\w])system\("),
        Watch("Data that may run code when read", "warning", r"\b(pickle|marshal)\.loads?\(|yaml\.load\(", _SCRIPTS),
        Watch("A certificate that is not checked", "error", _UNCHECKED),
        Watch("What looks like a secret", "error", _SECRET, is_secret=True),
        Watch("Copies without a bound", "warning", r"\b(strcpy|strcat|sprintf|gets)\s*\(", _NATIVE),
        Watch("Unchecked by the compiler", "info", r"\bunsafe\b", frozenset({"Rust"})),
    ),
}
