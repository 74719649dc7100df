"""The offline model as the agent of a document node: fills its form, adds children, mends what the gate refuses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, dirname
from typing import Any

from drone.agent.ports.model import ChildForm, NodeForm, WantedCall
from drone.models.offline.fill import FEW, FieldWords, fitted, in_bounds
from drone.models.offline.look import NextStep, RequestSoFar, mapping_at
from drone.models.offline.report import definitions, opening_line, paragraph
from drone.models.offline.search import FilesSurvey, SourceLine, json_object, survey
from mcc.contracts.blueprints import BooleanField, ChoiceField, FieldSpec, ListField, NumberField, TextField

MOST_REPAIRS = 12
_CHECKS = ("done", "validate")
_MADE = "Filled in by fixed rules, without a language model."


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What files say for the fields of one node. `base`: the file or directory that the node is about; "" = all."""

    form: NodeForm
    known: FilesSurvey
    base: str

    @classmethod
    def of(cls, conversation: RequestSoFar, form: NodeForm) -> "FileFacts | None":
        """None if nothing that has to be filled in is about files, or none can be read."""
        names = [name for name, spec in form.fields.items() if spec.required]
        names += [name for child in form.children.values() for name in child.metadata]
        if not {"find_files", "read_file"} <= conversation.tools.keys():
            return None
        if form.path != "/" and not any(is_path(name) for name in names):
            return None
        own = (value for name, value in form.topics[0].items() if is_path(name) and isinstance(value, str))
        return cls(form, survey(conversation), next(own, "").removeprefix("./").strip("/."))

    def step(self, conversation: RequestSoFar) -> NextStep | None:
        """The next listing or reads."""
        if conversation.must_finish:
            return None
        known, is_file = self.known, "." in basename(self.base)
        pattern = f"{self.base}/**" if self.base else "**/*"
        listing = None if is_file else conversation.call("find_files", pattern=pattern, limit=2_000)
        if listing is not None:
            return NextStep("I list the files that this is about.", (listing,))
        under = [self.base] if is_file else sorted(known.sources, key=lambda path: (path.count("/"), path))[:4]
        paths = under if self.base else [*known.readmes[:1], *known.build_files[:1], *known.central()[:2]]
        calls = (conversation.call("read_file", path=path, start_line=1, end_line=400) for path in paths)
        return conversation.step("I read what this is about.", calls)

    def value(self, name: str, spec: FieldSpec) -> Any:
        """The value for a field; None if the files say nothing about it."""
        pages = sorted(self.known.pages, key=lambda path: not path.startswith(self.base))
        subject = self._subject()
        match spec:
            case ListField(items=TextField()) if is_path(name):
                return pages[: spec.max_items or 4] or None
            case NumberField() if "line" in name and subject:
                return subject[1].number
            case ChoiceField() if subject:
                kinds = (subject[2], "class" if subject[2] == "struct" else "function")
                return next((one for one in kinds if one in spec.options), None)
            case TextField() if is_path(name):
                return subject[1].path if subject else next(iter(pages), None)
            case TextField() if name in ("quote", "excerpt", "snippet") and subject:
                return subject[1].text.strip()[: spec.max_length]
            case TextField() if name == "language":
                return next((language for language, _ in self.known.languages), None)
            case TextField() if name in ("name", "title") and self.form.path == "/":
                lines = [line for path in self.known.readmes[:1] for line in self.known.pages.get(path, {}).values()]
                return next((line[2:].strip()[: spec.max_length] for line in lines if line.startswith("# ")), None)
            case TextField() if not spec.pattern and pages and (spec.min_length or 0) > 20:
                ends = (_MADE, "More than this was not read.")
                least, most = spec.min_length or 0, spec.max_length or 0
                return fitted([*self._said(pages), *ends], max(least, most // 3), most)
        return None

    def parts(self) -> list[dict[str, str]]:
        """What children may be about, `name` and `path`: directories or files, or what the files define."""
        if self.base:
            found = [one for path, page in self.known.pages.items() for one in definitions(path, page)]
            unlike = {name: line.path for name, line, _ in reversed(found) if not name.startswith("_")}
            return [{"name": name, "path": path} for name, path in list(reversed(unlike.items()))[:FEW]]
        places = list(dict.fromkeys(dirname(path) for path in self.known.sources if dirname(path)))
        tops = list(dict.fromkeys(place.split("/")[0] for place in places))
        paths = tops if len(tops) > 1 else places if len(places) > 1 else list(self.known.sources)
        return [{"name": basename(path).partition(".")[0], "path": path} for path in paths[: FEW + 2]]

    def _subject(self) -> tuple[str, SourceLine, str] | None:
        """The definition that the node is about: the one that it is named after, else the first."""
        found = [one for path, page in self.known.pages.items() if path == self.base for one in definitions(path, page)]
        names = {value for value in self.form.topics[0].values() if isinstance(value, str)}
        return next((one for one in found if one[0] in names), found[0] if found else None)

    def _said(self, pages: Sequence[str]) -> Iterator[str]:
        """Sentences that quote the files."""
        for path in pages:
            page = self.known.pages[path]
            said = paragraph(page) if path in self.known.readmes else opening_line(page)
            if said is not None:
                yield f"`{path}` says: “{said[1]}”"
            if names := [f"`{name}`" for name, _, _ in definitions(path, page)[:4]]:
                yield f"`{path}` defines {', '.join(names)}."


def is_path(name: str) -> bool:
    return any(word in name.lower() for word in ("path", "file", "source"))


def node_step(conversation: RequestSoFar, form: NodeForm) -> NextStep | None:
    """The next calls; None when no repair is left."""
    files = FileFacts.of(conversation, form)
    if files is not None and (step := files.step(conversation)) is not None:
        return step
    work = _Work(conversation, form, files)
    return work.first() or work.repaired() or work.finished()


class _Work:
    def __init__(self, conversation: RequestSoFar, form: NodeForm, files: FileFacts | None) -> None:
        self._conversation = conversation
        self._form = form
        self._files = files
        self._setter = "set_metadata" if form.section == "metadata" else "set_value"
        self._fields = form.fields if self._setter in conversation.tools else {}
        sets = [one for one in conversation.done if one.name == self._setter]
        self._set = {name for one in sets for name in mapping_at(one.arguments.get("values"))}
        names = [one.name for one in conversation.done if one.name in (self._setter, "add_child", *_CHECKS)]
        checks = [_errors(one.content) for one in conversation.done if one.name in _CHECKS]
        self._errors = checks[-1] if checks else ()
        self._failed = sum(map(bool, checks))
        self._has_begun = bool(names)
        self._has_changed = bool(names) and names[-1] not in _CHECKS
        self._added = [str(one.arguments.get("component")) for one in conversation.results("add_child")]

    def first(self) -> NextStep | None:
        """Set all that is wanted and add the children."""
        wanted = {name: spec for name, spec in self._fields.items() if self._is_wanted(name, spec)}
        values = {**self._values(wanted, 0), **self._counts()}
        calls = [WantedCall(self._setter, {"values": values})] if values else []
        calls += self._children()
        return NextStep("I fill in what is asked for.", tuple(calls)) if calls and not self._has_begun else None

    def repaired(self) -> NextStep | None:
        """Set what the last check refused to other values, each in a call of its own."""
        if not self._errors or self._has_changed or self._failed > MOST_REPAIRS:
            return None
        named = {field.partition(".")[2] for field in self._errors}
        wanted = {name: spec for name, spec in self._fields.items() if name in named}
        if not wanted and "" in self._errors:
            # A rule about several fields: figures and choices are what such rules compare.
            kinds = NumberField | ChoiceField | BooleanField
            compared = {name: spec for name, spec in self._fields.items() if isinstance(spec, kinds)}
            wanted = {name: spec for name, spec in compared.items() if spec.required or name in self._set}
        values = self._values(wanted, self._failed)
        calls = [WantedCall(self._setter, {"values": {name: value}}) for name, value in values.items()]
        calls += self._children()
        return NextStep("I mend what does not hold.", tuple(calls)) if calls else None

    def finished(self) -> NextStep | None:
        """Hand in. After a second refusal, ask for a check first, which uses no attempt."""
        if self._errors and not self._has_changed:
            return None
        if self._failed > 1 and self._has_changed and "validate" in self._conversation.tools:
            return NextStep("I ask whether all of it holds now.", (WantedCall("validate", {}),))
        return NextStep("I hand in my part.", (WantedCall("done", {"summary": _MADE}),))

    def _is_wanted(self, name: str, spec: FieldSpec) -> bool:
        value = self._form.values.get(f"{self._form.section}.{name}")
        return spec.required and (value is None or (self._form.is_stale and value != spec.default))

    def _values(self, fields: Mapping[str, FieldSpec], attempt: int) -> dict[str, Any]:
        known = {key.partition(".")[2]: one for key, one in self._form.values.items() if isinstance(one, int | float)}
        words = FieldWords(self._form, {name: float(one) for name, one in known.items() if name not in fields})
        made, figures = dict[str, Any](), list[float]()
        for name, spec in fields.items():
            said = self._files.value(name, spec) if self._files and attempt < 2 else None
            value = said if said is not None else words.value(name, spec, attempt)
            if isinstance(spec, NumberField) and said is None:
                if figures:
                    # Rules compare figures: the next one is far above the first, or else far below it.
                    value = in_bounds(figures[0] * 4.0 ** (len(figures) * (-1 if attempt % 2 else 1)), spec)
                figures.append(float(value))
            if value is not None:
                made[name] = value
        return made

    def _counts(self) -> dict[str, Any]:
        """The fields that state how many children there are, as many as there will be."""
        counts = {component: self._count(component, child) for component, child in self._form.children.items()}
        return {
            name: count
            for name, spec in self._fields.items()
            for component, count in counts.items()
            if isinstance(spec, NumberField) and states_count(name, component) and in_bounds(count, spec, 1) == count
        }

    def _count(self, component: str, child: ChildForm) -> int:
        """How many children of this component there will be: a number that people hold counts most."""
        form, least = self._form, child.count.min
        held = [form.values.get(name) for name in form.held if states_count(name.partition(".")[2], component)]
        wanted = next((one for one in held if isinstance(one, int)), 0)
        if not wanted and self._files and any(map(is_path, child.metadata)):
            wanted = len(self._files.parts())
        existing = sum(one == component for one in form.existing.values())
        most = child.count.max if child.count.max is not None else 1_000
        return max(existing, min(most, max(least, 0 if existing else wanted or (least + 1 if least else 0))))

    def _children(self) -> Iterator[WantedCall]:
        for component, child in self._form.children.items() if "add_child" in self._conversation.tools else ():
            existing = sum(one == component for one in self._form.existing.values())
            for place in range(existing + self._added.count(component), self._count(component, child)):
                metadata = dict(self._about(child, place))
                yield WantedCall("add_child", {"component": component, **({"metadata": metadata} if metadata else {})})

    def _about(self, child: ChildForm, place: int) -> Iterator[tuple[str, Any]]:
        parts = self._files.parts() if self._files and any(map(is_path, child.metadata)) else []
        part = parts[place] if place < len(parts) else {}
        words = FieldWords(self._form, {})
        for name, spec in child.metadata.items():
            if isinstance(spec, TextField) and (spec.required or part):
                made = words.text(name, spec, 0, place) if spec.pattern else words.name(place, spec.max_length or 0)
                yield name, part.get("path" if is_path(name) else "name") or made


def states_count(name: str, component: str) -> bool:
    """Whether a field's name says that it counts the children of this component."""
    words = name.lower().split("_")
    return f"{component}s" in words or {component, "count"} <= set(words)


def _errors(content: str) -> tuple[str, ...]:
    """The field of each error in the answer of a check; "" for a rule about several fields."""
    answer = json_object(content)
    errors = answer.get("errors")
    if answer.get("ok") or not isinstance(errors, list):
        return ()
    return tuple(str(mapping_at(one).get("field") or "") for one in errors)
