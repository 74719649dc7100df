"""Fills forms: results with facts by their JSON Schema, and fields of document nodes with texts about their topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from typing import Any, TypeAlias

from drone.agent.ports.model import NodeForm, WantedCall
from drone.models.offline.look import NextStep, RequestSoFar, mapping_at
from drone.models.offline.report import QuotedFinding, ReportFacts, quoted, quoted_lines
from mcc.contracts import blueprints
from mcc.contracts.blueprints import FieldSpec, ListField, NumberField, TextField
from mcc.rules.patterns import Pattern

FEW = 3
_LONGEST_TOPIC = 60
_PART = Pattern(r"[,;:.(]")
_TERM = 60
"""Characters: items of a list that may be no longer are words rather than sentences."""
_ENOUGH = 90
_LARGEST = 1e12

_ASPECTS = (
    *("examples of {t}", "the parts of {t}", "the causes of {t}", "ways to measure {t}", "the history of {t}"),
    *("the uses of {t}", "open questions about {t}", "changes of {t}"),
)
_SENTENCES = (
    "Write down what you already know about {t}.",
    "Find one case that shows {t}, and describe it.",
    "Compare two cases that concern {t}.",
    "Draw what belongs to {t}, and name what you drew.",
    "Explain {t} to somebody in three sentences.",
    "Note what is still open about {t}.",
    "Sort what you found out about {t}.",
    "Ask somebody about {t}, and write down the answer.",
    "Look for a figure that says something about {t}.",
    "Say how you can tell that you have understood {t}.",
)
_QUESTIONS = ("What do we know about {t}?", "How can we find out more about {t}?", "What is still open about {t}?")
_TITLES = ("A first look at {t}", "Notes on {t}", "Working on {t}", "A closer look at {t}", "Talking about {t}")
_WORDS = ("example", "question", "observation", "measurement", "comparison", "pattern", "change", "cause", "effect")


@dataclass(frozen=True, slots=True)
class FieldWords:
    """Values for the fields of one node. Another `attempt` makes another value."""

    form: NodeForm
    numbers: Mapping[str, float]

    @property
    def topics(self) -> list[str]:
        """The first text among the metadata of the node, and of each that it belongs to; else the brief."""
        texts = ([one for one in values.values() if isinstance(one, str)] for values in self.form.topics)
        found = [_topic(one) for one in (*(text[0] for text in texts if text), self.form.brief, self.form.component)]
        return [one for one in found if one]

    @property
    def topic(self) -> str:
        """What sentences are about, as it stands in the middle of one."""
        own = self.topics[0]
        begins = (*(one.partition("{")[0] for one in _ASPECTS), "how ", "what ", "who ", "why ", "when ", "where ")
        return own[:1].lower() + own[1:] if own.lower().startswith(begins) else own

    def seed(self, *words: object) -> int:
        """A number that is always the same for this node and these words."""
        text = "\n".join(map(str, (self.form.path, self.topic, *words)))
        return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:6], "big")

    def value(self, name: str, spec: FieldSpec, attempt: int, place: int = 0) -> Any:
        """A value for a field; None if there is none. `place`: that of an item in its list."""
        match spec:
            case TextField():
                return self.text(name, spec, attempt, place)
            case NumberField():
                return self._number(spec, attempt + place)
            case blueprints.BooleanField():
                return attempt % 2 == 1
            case blueprints.ChoiceField():
                start = 0 if self.form.path == "/" else self.seed(name)
                return spec.options[(start + attempt + place) % len(spec.options)]
            case blueprints.DateField():
                ahead, last = 1 + attempt + place, date.fromisoformat((spec.before or "9999-12-31")[:10]).toordinal()
                day = date.fromisoformat((spec.after or "2027-01-01")[:10]).toordinal() + ahead
                return date.fromordinal(day if day < last else max(1, last - ahead)).isoformat()
            case blueprints.ReferenceField():
                paths = self.form.targets.get(spec.to, ())
                return paths[(attempt + place) % len(paths)] if paths else None
            case ListField():
                return self._list(name, spec, attempt)
        return None

    def text(self, name: str, spec: TextField, attempt: int, place: int = 0) -> str:
        least, most = spec.min_length or 0, spec.max_length or 0
        if spec.pattern:
            return example_of(spec.pattern, self.seed(name, attempt, place))
        asks = ("question" in name) != (attempt % 2 == 1 and attempt > 1)
        if asks and (not most or most > len(_QUESTIONS[0])):
            return fitted([_QUESTIONS[(attempt + place) % len(_QUESTIONS)].format(t=self.topic)], least, most)
        if least <= 25 and (0 < most <= 130 or any(one in name for one in ("title", "name", "label"))):
            made = _TITLES[(self.seed(name) + attempt + place) % len(_TITLES)].format(t=self.topic)
            if self.form.path == "/" and not attempt:
                made = f"{self.topic[:1].upper()}{self.topic[1:]}, step by step"
            return fitted([made], least, most)
        start = self.seed(name) + attempt + place
        every = [
            _SENTENCES[(start + number) % len(_SENTENCES)].format(t=topic)
            for topic in (self.topic, *(aspect.format(t=self.topic) for aspect in _ASPECTS))
            for number in range(len(_SENTENCES))
        ]
        return fitted(every, max(least, min(_ENOUGH, most // 2 or _ENOUGH) if not place else least), most)

    def name(self, place: int, most: int) -> str:
        """What a child is about; each `place` has its own."""
        whole = self.topics[: len(self.form.topics)][-1]
        numbers = "".join(f"{part.rpartition('-')[2]}." for part in self.form.path.split("/") if part)
        made = f"{whole} {numbers}{place + 1}" if numbers else _ASPECTS[place % len(_ASPECTS)].format(t=self.topic)
        return fitted([made[:1].upper() + made[1:]], 0, most)

    def _list(self, name: str, spec: ListField, attempt: int) -> list[Any] | None:
        least, most = spec.min_items or 0, spec.max_items or FEW
        count, item = max(least, min(FEW, most)), spec.items
        if isinstance(item, TextField) and not item.pattern and 0 < (item.max_length or 0) <= _TERM:
            start = self.seed(name, attempt)
            words = [_WORDS[(start + place) % len(_WORDS)] for place in range(len(_WORDS))]
            made: list[Any] = [fitted([word], item.min_length or 0, item.max_length or 0) for word in words]
        else:
            made = [self.value(name, item, attempt, place) for place in range(1, count * 4 + 1)]
        kept = list(dict.fromkeys(one for one in made if one is not None))[:count]
        return kept if len(kept) >= max(least, 1) else None

    def _number(self, spec: NumberField, attempt: int) -> float:
        """A third of the way between the figures that are settled, or from the lower bound to such a figure."""
        low = spec.min if spec.min is not None else 0.0
        high = spec.max if spec.max is not None else None
        settled = sorted(one for one in self.numbers.values() if one >= low and (high is None or one <= high))
        begin = settled[0] if len(settled) > 1 else low
        end = settled[-1] if settled else high if high is not None and high <= low + 200 else low + 100
        share = (1 / 3, 2 / 3, 0, 1, 1 / 2, 1 / 10, 9 / 10)[attempt % 7]
        return in_bounds(begin + (end - begin) * share, spec)


def _topic(text: str) -> str:
    """The text on one line; of a long one its first part, else words and a mark."""
    plain = " ".join(text.split()).strip(" .,:;#-")
    first = _PART.split(plain, 1)[0]
    short = first if 3 <= len(first) <= _LONGEST_TOPIC else plain[:_LONGEST_TOPIC].rsplit(" ", 1)[0] + " …"
    return plain if len(plain) <= _LONGEST_TOPIC else short


def in_bounds(value: float, spec: NumberField, step: int = 5) -> float:
    """The value as the field may have it: a multiple of `step` where that leaves it within its bounds."""
    value = min(value, _LARGEST)
    near = round(value / step) * step if value >= step else round(value, 2)
    near = max(near, spec.min if spec.min is not None else near)
    near = min(near, spec.max if spec.max is not None else near)
    is_whole = near <= 2**53 and float(near).is_integer()
    return round(near) if spec.integer or is_whole else near


def fitted(sentences: Sequence[str], least: int, most: int) -> str:
    """As many whole sentences as `least` demands and `most` allows; where not even one fits, its words up to `…`."""
    text = ""
    for sentence in sentences:
        longer = f"{text} {sentence}".strip()
        if (not text or len(text) < least) and (not most or len(longer) <= most):
            text = longer
    text = text or quoted(sentences[0], most)
    return text if len(text) >= least else f"{text} {'…' * least}"[: max(least, most)]


_ATOM = Pattern(
    r"(?:\[(?P<set>[^\]^]+)\]|\\(?P<escape>.)|(?P<letter>[^\^$()?*+{}\[\]\\]))(?:\{(?P<n>[0-9]+)[0-9,]*\}|(?P<no>[?*]))?"
)
_RANGE = Pattern(r"(?P<first>[^\\])-(?P<last>.)|\\(?P<escape>.)|(?P<one>.)")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CLASSES = {"": "", "d": "0123456789", "w": _LETTERS, "s": " "}
_MOST_REPEATS = 60


def example_of(pattern: str, chance: int) -> str:
    """A text that matches the first alternative of a pattern of characters, sets and counts; of others it may not."""
    made: list[str] = []
    for atom in _ATOM.finditer(pattern.partition("|")[0]):
        escape, letter = atom["escape"] or "", (atom["letter"] or "").replace(".", _LETTERS)
        allowed = _CLASSES.get(escape, escape) or letter or _members(atom["set"])
        made += [allowed] * min(int(atom["n"] or not atom["no"]), _MOST_REPEATS)
    return "".join(one[((chance >> (place % 40)) + place * 7) % len(one)] for place, one in enumerate(made))


def _members(inside: str) -> str:
    """The characters of a set of a pattern."""
    members = ""
    for part in _RANGE.finditer(inside):
        span, escape = range(ord(part["first"] or "b"), ord(part["last"] or "a") + 1), part["escape"] or ""
        members += "".join(map(chr, span[:100])) or _CLASSES.get(escape, escape) or part["one"] or ""
    return members


FINISH, CHECK_ONLY = "submit_result", "check_only"
_UNKNOWN = "not determined"
_DEEPEST = 12
_MOST_FINDINGS, _MOST_TEXT = 20, 4_000
_NOTHING = object()
Schema: TypeAlias = Mapping[str, Any]

_SYNONYMS: Mapping[str, Sequence[str]] = {
    "info": ("note", "low", "minor", "none"),
    "medium": ("warning", "moderate", "minor"),
    "high": ("error", "critical", "major"),
    "completed": ("complete", "done", "success", "succeeded", "ok"),
    "blocked": ("partial", "incomplete", "failed", "error"),
}


def submission(conversation: RequestSoFar, facts: ReportFacts) -> NextStep | None:
    """The next attempt at an accepted result; None for an agent that hands nothing in."""
    if FINISH not in conversation.tools:
        return None
    refused = [done for done in conversation.done if done.name == FINISH and done.is_error]
    complaint = refused[-1].content.strip()[:300] if refused else ""
    facts = replace(facts, summary=quoted(facts.summary, _MOST_TEXT), report=quoted_lines(facts.report, _MOST_TEXT))
    facts = replace(facts, findings=facts.findings[:_MOST_FINDINGS])
    sure = tuple(one for one in facts.findings if one.path in facts.read and one.quote)
    blocked = replace(facts, blocked=True, summary=f"{facts.summary} Not accepted as completed: {complaint}")
    form = SchemaForm(conversation.tools[FINISH].parameters)
    variants = (facts, replace(facts, findings=sure), replace(facts, findings=()), blocked)
    every = [form.filled(variant) for variant in variants]
    known = [dict(done.arguments) for done in refused]
    arguments = next((one for one in every if one not in known), every[-1])
    return NextStep("I hand in what I found.", (WantedCall(FINISH, arguments),))


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """Fills a JSON Schema with facts, by the names and types of its properties. A required property that no fact fits
    gets the smallest value that its schema allows."""

    schema: Schema

    def filled(self, facts: ReportFacts) -> dict[str, object]:
        value = self._value(self.schema, _named_facts(facts), "", True, 0)
        return value if isinstance(value, dict) else {}

    def _value(self, schema: object, scope: Mapping[str, Any], name: str, required: bool, depth: int) -> Any:
        """The value for one place; `_NOTHING` if it is unknown and not required."""
        plain = self._plain(schema)
        if depth > _DEEPEST or name == CHECK_ONLY:
            return _NOTHING
        if "const" in plain:
            return plain["const"]
        known = scope.get(_normal(name), _NOTHING) if name else scope
        if options := plain.get("enum"):
            words = [known if isinstance(known, str) else "", *_SYNONYMS.get(str(known), ())]
            words += ["unknown", "other", "none", "n/a", options[0]] if required else []
            return next((word for word in words if word in options), _NOTHING)
        kinds = _kinds(plain)
        if kinds[0] == "string" and isinstance(known, list) and not name.endswith("s"):
            known = known[:1]
        value = self._of_kind(kinds[0], plain, known, scope, depth)
        if value is not _NOTHING or not required:
            return value
        least = {"string": _UNKNOWN[: plain.get("maxLength")], "boolean": False, "array": [], "object": {}}
        return None if "null" in kinds else least.get(kinds[0], plain.get("minimum", 0))

    def _of_kind(self, kind: str, schema: Schema, known: Any, scope: Mapping[str, Any], depth: int) -> Any:
        if kind == "object":
            inner, must = known if isinstance(known, Mapping) else scope, schema.get("required") or ()
            properties = mapping_at(schema, "properties").items()
            filled = {key: self._value(one, inner, key, key in must, depth + 1) for key, one in properties}
            return {key: value for key, value in filled.items() if value is not _NOTHING}
        if known is _NOTHING:
            return _NOTHING
        listed = known if isinstance(known, list) else [known]
        if kind == "array":
            each = schema.get("items", {})
            is_form = _kinds(self._plain(each))[0] == "object"
            scopes = [one if is_form else {"item": one} for one in listed if isinstance(one, Mapping) or not is_form]
            made = [self._value(each, one, "" if is_form else "item", is_form, depth + 1) for one in scopes]
            kept = [value for value in made if value is not _NOTHING][: schema.get("maxItems")]
            return kept if len(kept) >= schema.get("minItems", 0) else _NOTHING
        if kind == "string":
            text = ", ".join(str(one.get("text", "") if isinstance(one, Mapping) else one) for one in listed)
            most = schema.get("maxLength") or len(text)
            return (text if len(text) <= most else quoted(text, most)) or _NOTHING
        if kind == "boolean":
            return bool(known)
        number = len(known) if isinstance(known, list) else known
        return number if isinstance(number, int | float) and not isinstance(number, bool) else _NOTHING

    def _plain(self, schema: object) -> Schema:
        """The schema behind references and choices."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping):
                return {}
            options = schema.get("anyOf") or schema.get("oneOf")
            if isinstance(reference := schema.get("$ref"), str):
                steps = reference.removeprefix("#").strip("/").split("/")
                schema = mapping_at(self.schema, *(one.replace("~1", "/").replace("~0", "~") for one in steps if one))
            elif isinstance(options, list | tuple) and options:
                chosen = next((one for one in options if mapping_at(one).get("type") != "null"), options[0])
                schema = {**schema, "anyOf": None, "oneOf": None, **self._plain(chosen)}
            else:
                return schema
        return {}


def _kinds(schema: Schema) -> list[str]:
    """The types of a schema, `null` last; guessed where it names none."""
    kind = schema.get("type") or ("object" if "properties" in schema else "array" if "items" in schema else "string")
    return sorted([kind] if isinstance(kind, str) else kind, key="null".__eq__)


def _normal(name: str) -> str:
    """A property name without case, separators and plural."""
    return "".join(one for one in name.lower() if one.isascii() and one.isalnum()).removesuffix("s")


def _named(names: str, value: object) -> dict[str, object]:
    return {_normal(name): value for name in names.split() if value not in (None, "", 0)}


def _named_facts(facts: ReportFacts) -> dict[str, object]:
    """What is known, by the names that properties may have."""
    known = facts.known
    count = known.total if known.total is not None else len(known.files)
    return {
        **_named("status state outcome verdict", "blocked" if facts.blocked else "completed"),
        **_named("summary answer text description overview conclusion message explanation detail", facts.summary),
        **_named("result report markdown body content", facts.report),
        **_named("finding issue risk problem item observation", [_named_finding(one) for one in facts.findings]),
        **_named("path file files_read read source evidence", list(facts.read)),
        **_named("file_count number_of_files total_files", count),
        **_named("language", [name for name, _ in known.languages]),
        **_named("entry_point start command", [line.path for line in known.entries]),
        **_named("test test_file has_tests", list(known.tests[:20])),
    }


def _named_finding(one: QuotedFinding) -> dict[str, object]:
    return {
        **_named("title name topic claim finding message summary", one.title),
        **_named("evidence quote proof", one.quote),
        **_named("detail description content explanation", one.evidence or one.title),
        **_named("severity level priority impact", one.severity),
        **_named("path file source reference", [one.path] if one.path else None),
        **_named("text", ": ".join(filter(None, (one.title, one.evidence)))),
        **_named("line start_line", one.line),
    }
