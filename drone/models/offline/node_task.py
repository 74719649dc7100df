"""The task of a document node's agent, parsed from its system prompt, its request and the schemas of its tools."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from drone.models.offline.conversation import Conversation
from mcc.rules.patterns import Pattern, PatternMatch

_PART = Pattern(r"^# Your part: (?P<of>the metadata of )?(?:an? )?(?P<name>\w+)$", lines=True)
_NODE = Pattern(r"^This is the node (/\S*)\.$", lines=True)
_LINE = Pattern(r"^- (?P<name>[\w.]+)(?P<must> \(required\))?: (?P<said>.*)$")
_VALUE = Pattern(r"^- (?P<name>(?:metadata|props)\.\w+): (?P<json>.+)$", lines=True)
_CHILD = Pattern(r"^- (?P<name>\w+)(?:, |: )(?P<count>[^:\n]+)", lines=True)
_THERE = Pattern(r"^- (?P<path>/\S*): (?P<said>.*)$", lines=True)
_HELD = Pattern(r"^People hold these values\..*: (?P<names>[\w., ]+)\.$", lines=True)
_NUMBER = r"(-?[0-9][0-9.]*(?:e[+-]?[0-9]+)?)"
_ITEMS = Pattern(r"\(each item: (?P<said>.*?)\)(?:, |\.)")
_PATTERN = Pattern(r"of the pattern `([^`]+)`")
_AFTER, _BEFORE = (Pattern(rf"\b{word} ([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})") for word in ("after", "before"))
_ABOUT = Pattern(r"\b(?:on|about|of) ([^,;.?!\"\n]{3,}?)(?: for |[,;.?!\"]|$)")
_QUOTED = Pattern(r"\"([^\"\n]{3,80})\"")
_TOPICS = ("topic", "focus", "name", "subject", "title")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for characters, items or values; None = unlimited."""

    least: float | None = None
    most: float | None = None

    @classmethod
    def of(cls, text: str, unit: str) -> "Bounds":
        if found := Pattern(rf"{_NUMBER} to {_NUMBER}{unit}").search(text):
            return cls(float(found[1]), float(found[2]))
        least = Pattern(rf"at least {_NUMBER}{unit}").search(text)
        most = Pattern(rf"at most {_NUMBER}{unit}").search(text)
        return cls(None if least is None else float(least[1]), None if most is None else float(most[1]))


def is_named(name: str, *words: str) -> bool:
    """Whether one of the words is part of the field's name."""
    return any(word in name.lower() for word in words)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field to set. `kind` is text, number, integer, boolean, choice, list, date or reference; `description` is all
    that is said about it."""

    name: str
    kind: str
    description: str = ""
    required: bool = False
    bounds: Bounds = Bounds()
    options: tuple[str, ...] = ()
    pattern: str = ""
    days: tuple[str, str] = ("", "")
    item: "FieldSpec | None" = None

    def is_named(self, *words: str) -> bool:
        return is_named(self.name, *words)


@dataclass(frozen=True, slots=True)
class Child:
    """A component whose nodes are children of this node; `metadata` are the fields that can be set on them."""

    name: str
    count: Bounds
    metadata: tuple[FieldSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTask:
    """`settled` are the values given with the task, `already_set` those that were set before; `neighbours` are the
    nodes that references may point to, with their descriptions. `inputs_changed`: the given values have changed.
    `topic` is the topic of the node, `document_topic` that of the document."""

    path: str
    part: str
    setter: str
    field_specs: tuple[FieldSpec, ...]
    children: tuple[Child, ...]
    settled: Mapping[str, Any]
    already_set: Mapping[str, Any]
    existing: tuple[str, ...]
    neighbours: Mapping[str, str]
    locked: frozenset[str]
    inputs_changed: bool
    topic: str
    document_topic: str

    @property
    def is_about_itself(self) -> bool:
        """Whether the node's own metadata states its topic."""
        return any(name.startswith("metadata.") for name in self.settled)

    def seed(self, *words: object) -> int:
        """A deterministic number for this node and these words."""
        text = "\n".join(map(str, (self.path, self.topic, *words)))
        return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:6], "big")


def node_task(conversation: Conversation) -> NodeTask | None:
    """The task; None if the agent is not that of a node."""
    part = _PART.search(conversation.system)
    if part is None or "done" not in conversation.tools:
        return None
    setter = "set_metadata" if part["of"] else "set_value"
    request = conversation.request
    sections = _sections(request)
    settled = _values(sections.get("What is settled of it", ""))
    above = list(reversed(_lines(sections.get("What it is part of, from the whole down", ""))))
    brief = [] if above else _lines(sections.get("The brief", ""))[:1]
    locked = _HELD.search(request)
    path = _NODE.search(sections.get("How it stands", ""))
    return NodeTask(
        path=path[1] if path else "/",
        part=part["name"],
        setter=setter,
        field_specs=tuple(_field_specs(conversation, setter)),
        children=tuple(_children(conversation, sections.get("To do", ""))),
        settled=settled,
        already_set=_values(sections.get("Values that are there", "")),
        existing=tuple(found["path"] for found in _THERE.finditer(sections.get("Children that are there", ""))),
        neighbours={
            found["path"]: found["said"]
            for title, text in sections.items()
            if title.startswith("Nodes that are")
            for found in _THERE.finditer(text)
        },
        locked=frozenset(locked["names"].split(", ")) if locked else frozenset(),
        inputs_changed="What has changed since it was made" in sections,
        topic=_topic(settled, above or brief, part["name"]),
        document_topic=_topic({} if above else settled, above[-1:] or brief, part["name"]),
    )


def _sections(text: str) -> dict[str, str]:
    """Section texts by title. Lines inside a fence are never titles, since strangers may have written them."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("<untrusted "):
            fence = f"</{line[1:]}"
        elif line.startswith("# "):
            lines = found.setdefault(line.removeprefix("# "), [])
            continue
        lines.append(line)
    return {title: "\n".join(below) for title, below in found.items()}


def _values(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in _VALUE.finditer(text):
        try:
            found[line["name"]] = json.loads(line["json"])
        except ValueError:
            found[line["name"]] = line["json"]
    return found


def _field_specs(conversation: Conversation, setter: str) -> Iterator[FieldSpec]:
    spec = conversation.tools.get(setter)
    values = _mapping_at(_mapping_at(spec.parameters if spec else {}, "properties").get("values"), "properties")
    lines = {found["name"]: found for line in conversation.system.split("\n") if (found := _LINE.match(line))}
    for name, schema in values.items():
        yield _field_spec(name, schema, lines.get(name))


def _field_spec(name: str, schema: object, line: PatternMatch | None) -> FieldSpec:
    sentence = str(line["said"]) if line is not None else ""
    kind = _kind(schema)
    description = str(_value_of(schema, "description") or "")
    options = _value_of(schema, "enum")
    item = None
    if kind == "list":
        each = _ITEMS.search(sentence)
        item = _field_spec(name, _value_of(schema, "items"), None)
        item = _with_description(item, each["said"] if each else "")
        sentence = sentence.replace(each.group(), " ", 1) if each else sentence
    field = FieldSpec(
        name,
        kind,
        required=line is not None and bool(line["must"]),
        options=tuple(one for one in options if isinstance(one, str)) if isinstance(options, list) else (),
        item=item,
    )
    return _with_description(field, sentence or description)


def _with_description(field: FieldSpec, sentence: str) -> FieldSpec:
    head = sentence.partition(". ")[0] if field.kind in ("number", "integer") else sentence
    unit = {"text": " characters", "list": " items"}.get(field.kind, "")
    pattern, after, before = _PATTERN.search(sentence), _AFTER.search(sentence), _BEFORE.search(sentence)
    kind = "date" if field.kind == "text" and sentence.startswith("date") else field.kind
    kind = "reference" if field.kind == "text" and sentence.startswith("path of a") else kind
    return FieldSpec(
        field.name,
        kind,
        sentence,
        field.required,
        Bounds.of(head.partition("`")[0] if kind in ("number", "integer") else sentence, unit),
        field.options,
        pattern[1] if pattern else "",
        (after[1] if after else "", before[1] if before else ""),
        field.item,
    )


def _kind(schema: object) -> str:
    types = _value_of(schema, "type")
    names = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    first = next((name for name in names if name != "null"), "string")
    if _value_of(schema, "enum"):
        return "choice"
    return {"array": "list", "string": "text"}.get(first, str(first))


def _children(conversation: Conversation, to_do: str) -> Iterator[Child]:
    spec = conversation.tools.get("add_child")
    properties = _mapping_at(spec.parameters if spec else {}, "properties")
    names = _value_of(properties.get("component"), "enum")
    counts = {found["name"]: found["count"] for found in _CHILD.finditer(to_do)}
    metadata = properties.get("metadata")
    several = _value_of(metadata, "anyOf")
    for name in names if isinstance(names, list) else ():
        ways = several if isinstance(several, list) else [metadata]
        own: object = next((way for way in ways if str(_value_of(way, "description")).endswith(f" {name}.")), {})
        fields = _mapping_at(own, "properties")
        field_specs = tuple(_field_spec(key, schema, None) for key, schema in fields.items())
        yield Child(name, Bounds.of(counts.get(name, ""), ""), field_specs)


def _topic(settled: Mapping[str, Any], above: Sequence[str], part: str) -> str:
    """A short topic: from the node's own metadata, else from what the node is part of, else from the brief."""
    own = {key.partition(".")[2]: value for key, value in settled.items() if key.startswith("metadata.")}
    named = [own[key] for key in _TOPICS if isinstance(own.get(key), str)]
    named += [value for value in own.values() if isinstance(value, str) and len(value.split()) < 12]
    if named:
        return _short(named[0])
    for line in above:
        if found := _ABOUT.search(_QUOTED.sub("", line)) or _QUOTED.search(line):
            return _short(found[1])
    return _short(above[0]) if above else part


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("<")]


def _short(text: str) -> str:
    plain = " ".join(text.split()).strip(" .,:;")
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST].rsplit(" ", 1)[0].strip(" .,:;")


def _value_of(schema: object, key: str) -> Any:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _mapping_at(schema: object, key: str) -> Mapping[str, Any]:
    found = _value_of(schema, key)
    return found if isinstance(found, Mapping) else {}
