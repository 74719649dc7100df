"""The offline model as the agent of a document node: sets values, adds children, and repairs what the gate reports."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.agent.model import WantedCall
from drone.models.offline.conversation import Conversation, Done
from drone.models.offline.explore import Step
from drone.models.offline.node_files import PATH_NAMES, Files
from drone.models.offline.node_task import Child, NodeTask, Wish
from drone.models.offline.node_words import Words, fitted
from mcc.rules.patterns import Pattern

MOST_REPAIRS = 12
_SLIPS = 4
"""One node in this many first gets an unfinished text, as happens with any author."""

_CHECKS = ("done", "validate")
_UNFINISHED = "…"
_NAME = Pattern(r"\b(?:metadata|props)\.(\w+)|'(\w+)'")
_MORE = 3
_APART = 4


@dataclass(frozen=True, slots=True)
class Complaint:
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
    return work.first() or work.mended() or work.finished()


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
        self._refusals = Counter(name for one in self._sets if one.is_error for name in _named(one.content))

    @property
    def _sets(self) -> list[Done]:
        return [one for one in self._done if one.name == self._task.setter]

    def first(self) -> Step | None:
        """Set all wanted values and add the children."""
        if any(not one.is_error for one in self._sets) or len(self._sets) > _MORE or self._has_asked:
            return None
        wanted = [wish for wish in self._task.wishes if self._is_wanted(wish)]
        values = self._values(wanted, 0)
        slip = self._slip(wanted)
        calls = [self._set({**values, **slip})] if values else []
        calls += [] if self._added else self._children()
        return Step("I fill in what is asked for.", tuple(calls)) if calls else None

    def mended(self) -> Step | None:
        """Repair what the last check reported, with different values each time."""
        if not self._complaints or self._has_changed_since or self._failed > MOST_REPAIRS:
            return None
        fields = {one.field.partition(".")[2] for one in self._complaints if one.field}
        wanted = [wish for wish in self._task.wishes if wish.name in fields and self._is_free(wish)]
        if not wanted and any(not one.field for one in self._complaints):
            wanted = [one for one in self._task.wishes if self._is_free(one) and self._is_of_the_whole(one)]
        values = self._values(wanted, self._failed)
        calls = [self._set(values)] if values else []
        calls += [call for child in self._task.children for call in self._more(child)]
        return Step("I mend what does not hold.", tuple(calls)) if calls else None

    def finished(self) -> Step | None:
        if self._complaints and not self._has_changed_since:
            return None
        if self._failed > 1 and "validate" in self._tools and self._has_changed_since:
            return Step("I ask whether all of it holds now.", (WantedCall("validate", {}),))
        return Step("I hand in my part.", (WantedCall("done", {"summary": self._summary()}),))

    @property
    def _has_asked(self) -> bool:
        return any(one.name in _CHECKS for one in self._done)

    @property
    def _has_changed_since(self) -> bool:
        """Whether anything has changed since the last check."""
        names = [one.name for one in self._done if not one.is_error or one.name in _CHECKS]
        return bool(names) and names[-1] not in _CHECKS

    @property
    def _added(self) -> list[Done]:
        return [one for one in self._done if one.name == "add_child" and not one.is_error]

    def _set(self, values: Mapping[str, Any]) -> WantedCall:
        return WantedCall(self._task.setter, {"values": dict(values)})

    def _is_free(self, wish: Wish) -> bool:
        section = "metadata" if self._task.setter == "set_metadata" else "props"
        return f"{section}.{wish.name}" not in self._task.held and not self._refusals[wish.name]

    def _is_wanted(self, wish: Wish) -> bool:
        section = "metadata" if self._task.setter == "set_metadata" else "props"
        if not self._is_free(wish) or (f"{section}.{wish.name}" in self._task.present and not self._task.anew):
            return False
        if wish.kind == "date" or wish.names(*PATH_NAMES):
            return wish.required
        return wish.required or self._task.chance(wish.name, "optional") % 2 == 0

    def _is_of_the_whole(self, wish: Wish) -> bool:
        """Whether a rule about several fields probably concerns this one: figures and choices."""
        return wish.kind in ("number", "integer", "choice", "boolean") and (wish.required or wish.name in self._given)

    def _values(self, wishes: Sequence[Wish], attempt: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        figures = [wish.name for wish in wishes if wish.kind in ("number", "integer")]
        for place, wish in enumerate(wishes):
            words = Words(self._task, {**self._task.settled, **self._numbers(made)})
            found = self._files.value(wish, words, attempt) if self._files else None
            value = found if found is not None else words.value(wish, attempt + (place if attempt else 0))
            if attempt and type(value) in (int, float) and len(figures) > 1:
                first = made.get(figures[0], value)
                value = apart(first, figures.index(wish.name), attempt, wish)
            if attempt > 1 and not wish.required and len(wishes) == 1:
                value = None
            if value is not None or attempt > 1:
                made[wish.name] = value
        return made

    def _numbers(self, made: Mapping[str, Any]) -> dict[str, Any]:
        return {f"props.{name}": one for name, one in made.items() if type(one) in (int, float)}

    def _slip(self, wishes: Sequence[Wish]) -> dict[str, Any]:
        if self._task.setter == "set_metadata" or self._task.chance("slip") % _SLIPS or self._sets:
            return {}
        texts = (wish for wish in wishes if wish.kind == "text" and (wish.bounds.least or 0) > len(_UNFINISHED))
        return {wish.name: _UNFINISHED for wish in list(texts)[:1] if not wish.pattern}

    def _children(self) -> Iterator[WantedCall]:
        if "children" in self._task.held or (self._task.there and not self._complaints):
            return
        for child in self._task.children:
            yield from self._more(child)

    def _more(self, child: Child) -> list[WantedCall]:
        there = sum(path.rsplit("/", 1)[-1].rpartition("-")[0] == child.name for path in self._task.there)
        added = sum(one.arguments.get("component") == child.name for one in self._added)
        least, most = int(child.count.least or 0), int(child.count.most or 10_000)
        about = self._files.parts(most) if self._files else []
        wanted = len(about) if about else least + self._task.chance(child.name) % _MORE if least else 0
        wanted = max(least, min(wanted, most))
        return [self._child(child, place, about) for place in range(there + added, wanted)]

    def _child(self, child: Child, place: int, about: Sequence[Mapping[str, str]]) -> WantedCall:
        words = Words(self._task, {})
        metadata: dict[str, Any] = {}
        for wish in child.metadata:
            known = about[place] if place < len(about) else {}
            if wish.kind == "text":
                name = "path" if wish.names("path", "file", "source") else "name"
                metadata[wish.name] = known.get(name) or fitted(words.phrase(wish, 0, place), 60)
        return WantedCall("add_child", {"component": child.name, **({"metadata": metadata} if metadata else {})})

    def _summary(self) -> str:
        texts = [one for one in self._given.values() if isinstance(one, str) and len(one) > 2 * len(_UNFINISHED)]
        longest = max(texts, key=len, default=f"{self._task.part} on {self._task.topic}")
        return fitted(longest, 160)


def apart(value: float, place: int, attempt: int, wish: Wish) -> int | float:
    """A figure far from the others, derived from the first: rising on odd attempts, falling on even ones."""
    found = float(value * _APART**place if attempt % 2 else value / _APART**place)
    found = float(max(found, wish.bounds.least if wish.bounds.least is not None else found))
    found = min(found, wish.bounds.most if wish.bounds.most is not None else found)
    return round(found) if wish.kind == "integer" or float(found).is_integer() else round(found, 2)


def _complaints(check: Done) -> tuple[Complaint, ...]:
    try:
        checked = json.loads(check.content)
        errors = checked["errors"] if not checked["ok"] else []
        return tuple(Complaint(str(one["field"] or ""), str(one["rule"]), str(one["message"])) for one in errors)
    except (ValueError, TypeError, KeyError):
        return ()


def _named(refusal: str) -> Iterator[str]:
    """Fields that the refusal of a command names."""
    yield from (found[1] or found[2] for found in _NAME.finditer(refusal))
