"""The offline model as the agent of a document node: sets values, adds children, and repairs what the gate reports."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Any

from drone.agent.ports.model import WantedCall
from drone.models.offline.conversation import CallResult, Conversation
from drone.models.offline.explore import Step
from drone.models.offline.node_files import PATH_NAMES, Files
from drone.models.offline.node_task import Child, FieldSpec, NodeTask
from drone.models.offline.node_words import Words, fitted
from mcc.rules.patterns import Pattern

MOST_REPAIRS = 12
_ONE_UNFINISHED_IN = 4
"""One node in this many first gets an unfinished text, as happens with any author."""

_CHECKS = ("done", "validate")
_UNFINISHED = "…"
_NAME = Pattern(r"\b(?:metadata|props)\.(\w+)|'(\w+)'")
_MOST_FIRST_TRIES = 3
_MOST_EXTRA = 3
_SPREAD_FACTOR = 4


@dataclass(frozen=True, slots=True)
class GateError:
    """Why a rule of the gate fails; `field` is "" if it concerns no single field."""

    field: str
    rule: str
    message: str


def node_step(conversation: Conversation, task: NodeTask) -> Step | None:
    """The next calls; None when no repair is left."""
    files = Files.of(conversation, task)
    if files is not None and (step := files.step(conversation)) is not None:
        return step
    work = _Work(conversation, task, files)
    return work.first() or work.repaired() or work.finished()


class _Work:
    def __init__(self, conversation: Conversation, task: NodeTask, files: Files | None) -> None:
        self._done = conversation.done
        self._tools = conversation.tools
        self._task = task
        self._files = files
        self._given: dict[str, Any] = {}
        for one in self._sets:
            given = one.arguments.get("values")
            self._given.update(given if isinstance(given, Mapping) and not one.is_error else {})
        checks = [_complaints(one) for one in self._done if one.name in _CHECKS]
        self._complaints = checks[-1] if checks else ()
        self._failed = sum(bool(found) for found in checks)
        refused = (found for one in self._sets if one.is_error for found in _NAME.finditer(one.content))
        self._refusals = Counter(found[1] or found[2] for found in refused)

    @property
    def _sets(self) -> list[CallResult]:
        return [one for one in self._done if one.name == self._task.setter]

    def first(self) -> Step | None:
        """Set all wanted values and add the children."""
        if any(not one.is_error for one in self._sets) or len(self._sets) > _MOST_FIRST_TRIES or self._has_checked:
            return None
        wanted = [field for field in self._task.field_specs if self._is_wanted(field)]
        values = self._values(wanted, 0)
        slip = self._unfinished_text(wanted)
        calls = [self._set({**values, **slip})] if values else []
        calls += [] if self._added else self._children()
        return Step("I fill in what is asked for.", tuple(calls)) if calls else None

    def repaired(self) -> Step | None:
        """Repair what the last check reported, with different values each time."""
        if not self._complaints or self._has_changed_since or self._failed > MOST_REPAIRS:
            return None
        fields = {one.field.partition(".")[2] for one in self._complaints if one.field}
        wanted = [field for field in self._task.field_specs if field.name in fields and self._is_free(field)]
        if not wanted and any(not one.field for one in self._complaints):
            wanted = [one for one in self._task.field_specs if self._is_free(one) and self._is_in_joint_rules(one)]
        values = self._values(wanted, self._failed)
        calls = [self._set(values)] if values else []
        calls += [call for child in self._task.children for call in self._missing_children(child)]
        return Step("I mend what does not hold.", tuple(calls)) if calls else None

    def finished(self) -> Step | None:
        if self._complaints and not self._has_changed_since:
            return None
        if self._failed > 1 and "validate" in self._tools and self._has_changed_since:
            return Step("I ask whether all of it holds now.", (WantedCall("validate", {}),))
        return Step("I hand in my part.", (WantedCall("done", {"summary": self._summary()}),))

    @property
    def _has_checked(self) -> bool:
        return any(one.name in _CHECKS for one in self._done)

    @property
    def _has_changed_since(self) -> bool:
        """Whether anything has changed since the last check."""
        names = [one.name for one in self._done if not one.is_error or one.name in _CHECKS]
        return bool(names) and names[-1] not in _CHECKS

    @property
    def _added(self) -> list[CallResult]:
        return [one for one in self._done if one.name == "add_child" and not one.is_error]

    def _set(self, values: Mapping[str, Any]) -> WantedCall:
        return WantedCall(self._task.setter, {"values": dict(values)})

    def _is_free(self, field: FieldSpec) -> bool:
        section = "metadata" if self._task.setter == "set_metadata" else "props"
        return f"{section}.{field.name}" not in self._task.locked and not self._refusals[field.name]

    def _is_wanted(self, field: FieldSpec) -> bool:
        section = "metadata" if self._task.setter == "set_metadata" else "props"
        if not self._is_free(field) or (
            f"{section}.{field.name}" in self._task.already_set and not self._task.inputs_changed
        ):
            return False
        if field.kind == "date" or field.is_named(*PATH_NAMES):
            return field.required
        return field.required or self._task.seed(field.name, "optional") % 2 == 0

    def _is_in_joint_rules(self, field: FieldSpec) -> bool:
        """Whether a rule about several fields probably concerns this one: figures and choices."""
        return field.kind in ("number", "integer", "choice", "boolean") and (
            field.required or field.name in self._given
        )

    def _values(self, field_specs: Sequence[FieldSpec], attempt: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        figures = [field.name for field in field_specs if field.kind in ("number", "integer")]
        for place, field in enumerate(field_specs):
            numbers = {f"props.{name}": one for name, one in made.items() if type(one) in (int, float)}
            words = Words(self._task, {**self._task.settled, **numbers})
            found = self._files.value(field, words, attempt) if self._files else None
            value = found if found is not None else words.value(field, attempt + (place if attempt else 0))
            if attempt and type(value) in (int, float) and len(figures) > 1:
                first = made.get(figures[0], value)
                value = spread(first, figures.index(field.name), attempt, field)
            if attempt > 1 and not field.required and len(field_specs) == 1:
                value = None
            if value is not None or attempt > 1:
                made[field.name] = value
        return made

    def _unfinished_text(self, field_specs: Sequence[FieldSpec]) -> dict[str, Any]:
        if self._task.setter == "set_metadata" or self._task.seed("slip") % _ONE_UNFINISHED_IN or self._sets:
            return {}
        texts = (
            field for field in field_specs if field.kind == "text" and (field.bounds.least or 0) > len(_UNFINISHED)
        )
        return {field.name: _UNFINISHED for field in list(texts)[:1] if not field.pattern}

    def _children(self) -> Iterator[WantedCall]:
        if "children" in self._task.locked or (self._task.existing and not self._complaints):
            return
        for child in self._task.children:
            yield from self._missing_children(child)

    def _missing_children(self, child: Child) -> list[WantedCall]:
        existing = sum(basename(path).rpartition("-")[0] == child.name for path in self._task.existing)
        added = sum(one.arguments.get("component") == child.name for one in self._added)
        least, most = int(child.count.least or 0), int(child.count.most or 10_000)
        about = self._files.parts(most) if self._files else []
        wanted = len(about) if about else least + self._task.seed(child.name) % _MOST_EXTRA if least else 0
        wanted = max(least, min(wanted, most))
        return [self._child(child, place, about) for place in range(existing + added, wanted)]

    def _child(self, child: Child, place: int, about: Sequence[Mapping[str, str]]) -> WantedCall:
        words = Words(self._task, {})
        metadata: dict[str, Any] = {}
        for field in child.metadata:
            known = about[place] if place < len(about) else {}
            if field.kind == "text":
                name = "path" if field.is_named("path", "file", "source") else "name"
                metadata[field.name] = known.get(name) or fitted(words.phrase(field, 0, place), 60)
        return WantedCall("add_child", {"component": child.name, **({"metadata": metadata} if metadata else {})})

    def _summary(self) -> str:
        texts = [one for one in self._given.values() if isinstance(one, str) and len(one) > 2 * len(_UNFINISHED)]
        longest = max(texts, key=len, default=f"{self._task.part} on {self._task.topic}")
        return fitted(longest, 160)


def spread(value: float, place: int, attempt: int, field: FieldSpec) -> int | float:
    """A figure far from the others, derived from the first: rising on odd attempts, falling on even ones."""
    found = float(value * _SPREAD_FACTOR**place if attempt % 2 else value / _SPREAD_FACTOR**place)
    found = float(max(found, field.bounds.least if field.bounds.least is not None else found))
    found = min(found, field.bounds.most if field.bounds.most is not None else found)
    return round(found) if field.kind == "integer" or float(found).is_integer() else round(found, 2)


def _complaints(check: CallResult) -> tuple[GateError, ...]:
    try:
        checked = json.loads(check.content)
        errors = checked["errors"] if not checked["ok"] else []
        return tuple(GateError(str(one["field"] or ""), str(one["rule"]), str(one["message"])) for one in errors)
    except (ValueError, TypeError, KeyError):
        return ()
