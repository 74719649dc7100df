"""Values for a document node taken from workspace files: what to read first, and what the files say."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import basename
from typing import Any

from drone.models.offline.conversation import Conversation
from drone.models.offline.explore import Step
from drone.models.offline.languages import depth_of, is_accompanying, is_test, language_of
from drone.models.offline.node_task import FieldSpec, NodeTask, is_named
from drone.models.offline.node_words import Words
from drone.models.offline.prose import names_defined, opening_of_readme, own_words, title_of_readme
from drone.models.offline.survey import Survey, survey

PATH_NAMES = ("path", "file", "source")
_LINE, _QUOTE = ("line",), ("quote", "excerpt", "snippet")
_MOST_LISTED = 2_000
_MOST_LINES = 2_000
_MOST_READ = 4
_FEW_PARTS, _MOST_PARTS = 3, 5
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Files:
    """What is known of the workspace for one node. `base`: the file or directory that the node is about; "" = all."""

    task: NodeTask
    known: Survey
    base: str

    @classmethod
    def of(cls, conversation: Conversation, task: NodeTask) -> "Files | None":
        """None if none of the fields to set is about files, or no files can be read."""
        if not {"list_files", "read_file"} <= conversation.tools.keys() or not _is_about_files(task):
            return None
        own = (value for name, value in task.settled.items() if is_named(name, *PATH_NAMES) and isinstance(value, str))
        base = next(own, "").removeprefix("./").rstrip("/")
        return cls(task, survey(conversation), "" if base == "." else base)

    def step(self, conversation: Conversation) -> Step | None:
        """The next listing or reads."""
        if conversation.must_finish:
            return None
        if not self._is_file:
            listing = conversation.call("list_files", path=self.base or None, depth=4, limit=_MOST_LISTED)
            if listing is not None and not self.known.files:
                return Step("I list the files that this is about.", (listing,))
        reads = (
            conversation.call("read_file", path=path, start_line=1, end_line=_MOST_LINES) for path in self._to_read()
        )
        calls = tuple(call for call in reads if call is not None)
        return Step("I read what this is about.", calls) if calls else None

    @property
    def read(self) -> list[str]:
        """Files whose text is known, those under `base` first."""
        return sorted(self.known.pages, key=lambda path: not path.startswith(self.base))

    def value(self, field: FieldSpec, words: Words, attempt: int) -> Any:
        """The value for a field; None if the files say nothing about it."""
        paths = self.read[attempt:] or self.read
        if field.kind == "list":
            item = field.item.kind if field.item else "text"
            if item == "reference":
                return self._imported_neighbours() or None
            return (paths[: int(field.bounds.most or _MOST_READ)] or None) if field.is_named(*PATH_NAMES) else None
        subject = self._subject()
        if field.kind in ("integer", "number"):
            return subject.line if subject and field.is_named(*_LINE) else None
        if field.kind == "choice":
            return self._definition_kind(field, subject)
        if field.kind != "text":
            return None
        if field.is_named(*PATH_NAMES):
            return (subject.path if subject else "") or (paths[0] if paths else None)
        if field.is_named(*_QUOTE):
            return subject.text.strip() if subject else None
        if field.is_named("language"):
            return self.known.languages[0].name if self.known.languages else None
        if field.is_named("name", "title"):
            return self._title() or None
        return words.prose(field, attempt, 0, " ".join(self._sentences()))

    def parts(self, most: int) -> list[dict[str, str]]:
        """Subjects for the children, by the words in their field names: parts of the workspace, or definitions."""
        if self.base:
            return [{"name": one.name, "path": one.path} for one in self._definitions()][: min(most, _MOST_NAMES)]
        own = [path for path in (self.known.own or self.known.files) if not is_test(path)]
        shared = _shared_depth(own)
        counted = Counter(_path_of_part(path, shared) for path in own)
        if len(counted) < _FEW_PARTS:
            counted = Counter(_path_of_part(path, shared + 1) for path in own)
        found = sorted(sorted(counted), key=lambda path: -counted[path])[: min(most, _MOST_PARTS)]
        return [{"name": path.removesuffix(f".{path.rpartition('.')[2]}"), "path": path} for path in found]

    @property
    def _is_file(self) -> bool:
        return language_of(self.base) is not None

    def _to_read(self) -> list[str]:
        if self._is_file:
            return [self.base]
        below = [path for path in self.known.own if path.startswith(f"{self.base}/")] if self.base else []
        other = [path for path in self.known.files if path.startswith(self.base) and not is_accompanying(path)]
        if self.base:
            useful = sorted(below or other, key=lambda path: (basename(path).startswith("__"), depth_of(path)))
            return useful[: _MOST_READ - 1]
        return [*self.known.readmes[:1], *self.known.build_files[:1], *self.known.own[:2]][:_MOST_READ] or other[:1]

    def _definitions(self) -> Iterator[Definition]:
        for path, page in self.known.pages.items():
            if path.startswith(self.base) and language_of(path) is not None:
                for number, text in enumerate(page.lines, 1):
                    for name in names_defined([text]) if text[:1].strip() else ():
                        yield Definition(name, path, number, text)

    def _subject(self) -> Definition | None:
        """The definition with the node's name; else the first line that mentions it or has content."""
        name = next((value for key, value in self.task.settled.items() if is_named(key, "name")), None)
        found = list(self._definitions())
        named = [one for one in found if one.name == name]
        for path, page in self.known.pages.items():
            named += [Definition("", path, at, text) for at, text in enumerate(page.lines, 1) if str(name) in text]
            named += [Definition("", path, at, text) for at, text in enumerate(page.lines, 1) if len(text.split()) > 2]
        return next(iter(named), None)

    def _definition_kind(self, field: FieldSpec, subject: Definition | None) -> str | None:
        line = subject.text if subject else ""
        word = (
            "class" if "class " in line else "function" if any(one in line for one in ("def ", "fn ", "func")) else ""
        )
        return word if word in field.options else None

    def _title(self) -> str:
        """The README's title, else the name in the build file, else the main directory."""
        pages = [self.known.pages[path] for path in self.known.readmes if path in self.known.pages]
        named = [title_of_readme(page) for page in pages] + [found.name for found in self.known.manifests]
        named += [path.split("/")[0] for path in self.known.own if "/" in path]
        return next((name for name in named if name), "")

    def _sentences(self) -> Iterator[str]:
        """Sentences about the definition, or what the files say about themselves and define."""
        subject = self._subject()
        if subject is not None and subject.name and self._is_file:
            yield f"{subject.name} is defined in {subject.path}, line {subject.line}: {subject.text.strip()}"
        for path in self.known.readmes:
            if path in self.known.pages and not self.base:
                yield opening_of_readme(self.known.pages[path])
        for path in self.read:
            words = own_words(self.known.pages[path]).rstrip(".")
            names = ", ".join(self.known.names_in(path)[:_MOST_NAMES])
            lines = len(self.known.pages[path].lines)
            yield f"{path} says of itself: {words}." if words else f"{path} has {lines} lines."
            if names:
                yield f"It defines {names}."
        below = [path for path in self.known.files if path.startswith(self.base)]
        sources = sum(language_of(path) is not None for path in below)
        if not self._is_file and len(below) > 1:
            yield f"Below {self.base or 'the root'} lie {len(below)} files, {sources} of them source code."

    def _imported_neighbours(self) -> list[str]:
        """Neighbouring nodes whose files are imported by this node's text."""
        text = "\n".join(self.known.pages[path].text for path in self.read)
        found: list[str] = []
        for path, line in self.task.neighbours.items():
            names = [word.strip("():,.").removesuffix(".py").replace("/", ".") for word in line.split()[1:3]]
            if any(len(name) > 2 and (f"import {name}" in text or f"from {name}" in text) for name in names):
                found.append(path)
        return found


def _is_about_files(task: NodeTask) -> bool:
    if task.setter == "set_metadata" and task.topic == task.part:
        return True
    wanted = [field for field in task.field_specs if field.required]
    wanted += [field for child in task.children for field in child.metadata]
    return any(field.is_named(*PATH_NAMES) for field in wanted) or any(
        "repository" in field.description for field in wanted
    )


def _shared_depth(paths: list[str]) -> int:
    """The number of leading directories that all paths share."""
    steps = [path.split("/")[:-1] for path in paths]
    found = 0
    while steps and all(len(one) > found and one[found] == steps[0][found] for one in steps):
        found += 1
    return found


def _path_of_part(path: str, below: int) -> str:
    return "/".join(path.split("/")[: below + 1])
