"""Blueprints: loaded, checked and compiled for making documents."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcc.contracts.blueprints import BlueprintSpec
from mcc.contracts.shape import to_json
from mcc.definitions.front_matter import Location, suggestion
from mcc.documents import field_checks, tree_checks
from mcc.documents.compiling import compiled
from mcc.documents.component import CompiledComponent
from mcc.documents.reading import (
    MAX_BYTES,
    MAX_PROBLEMS,
    BlueprintError,
    BlueprintProblem,
    ParsedBlueprint,
    failed,
    read,
    structure,
)
from mcc.rules.patterns import Pattern

_NAME = Pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, eq=False)
class Blueprint:
    """The schema of a kind of document; immutable, threads may share it.

    `digest` covers the content including the order of its keys; `text` is that content as JSON, which `parse` reads
    back into an equal blueprint.
    """

    spec: BlueprintSpec
    digest: str
    text: str
    components: Mapping[str, CompiledComponent]

    def __repr__(self) -> str:
        return f"Blueprint({self.name!r}, {self.digest!r})"

    @property
    def name(self) -> str:
        return self.spec.blueprint

    @property
    def root(self) -> CompiledComponent:
        return self.components[self.spec.root]

    def component(self, name: str) -> CompiledComponent:
        """The component of this name. Raises LookupError with a sentence."""
        if name not in self.components:
            raise LookupError(
                f"the blueprint {self.name} has no component {name[:80]!r}{suggestion(name, self.components)}"
            )
        return self.components[name]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Blueprint) and other.digest == self.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def parse(cls, text: str, source: str = "blueprint") -> "Blueprint":
        """`text` is YAML or JSON, `source` labels it in messages. Raises `BlueprintError` with all problems.

        Takes up to some seconds for the largest texts; in an event loop, call it in a thread.
        """
        return _blueprint_of(read(text, source))

    @classmethod
    def load(cls, named: str | Path | Mapping[str, Any], folders: Sequence[Path] = ()) -> "Blueprint":
        """Load by name (of a file in `folders`, else of a shipped one), by path, or from the content itself.

        A string with a slash or a dot is a path. Raises `BlueprintError`.
        """
        if isinstance(named, Mapping):
            return _from_mapping(named)
        if isinstance(named, str) and _NAME.fullmatch(named):
            files = blueprint_files((*folders, shipped_blueprints()))
            if named not in files:
                raise failed(named, f"There is no blueprint {named!r}{suggestion(named, files)}")
            named = files[named]
        return cls.parse(_text_of(Path(named)), str(named))


def shipped_blueprints() -> Path:
    """The directory of the shipped blueprints: in the package `drone` where installed, `prompts/` in a checkout."""
    root = Path(__file__).resolve().parents[2]
    packed = root / "drone" / "_prompts"
    return (packed if packed.is_dir() else root / "prompts") / "blueprints"


def blueprint_files(folders: Sequence[Path]) -> Mapping[str, Path]:
    """Blueprint files by name (the file's stem); where several folders have a name, the first one wins."""
    by_name: dict[str, Path] = {}
    for folder in folders:
        try:
            files = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
        except OSError:
            continue
        for path in files:
            if _NAME.fullmatch(path.stem):
                by_name.setdefault(path.stem, path)
    return MappingProxyType(dict(sorted(by_name.items())))


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            raise failed(str(path), "There is no such file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise failed(str(path), f"The file cannot be read: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, BlueprintError):
            raise
        raise failed(str(path)[:200], "This is not a file name") from error
    if len(content) > MAX_BYTES:
        raise failed(str(path), f"A blueprint may have {MAX_BYTES // 1024} KB at most; this has more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise failed(str(path), f"Byte {error.start} is not UTF-8; save the file as UTF-8", line) from error


def _from_mapping(content: Mapping[str, Any]) -> Blueprint:
    try:
        text = to_json(content).decode()
    except (TypeError, ValueError) as error:
        raise failed("blueprint", f"This is not the content of a blueprint: {error}") from error
    value = json.loads(text)
    return _blueprint_of(ParsedBlueprint("blueprint", text, value, {}))


def _blueprint_of(source: ParsedBlueprint) -> Blueprint:
    structured, problems = structure(source)
    if structured is None:
        raise BlueprintError(problems, source.label)
    spec = structured.spec
    if (why := field_checks.too_many(spec)) is not None:
        raise BlueprintError((*problems, BlueprintProblem(None, "", why)), source.label)
    components: dict[str, CompiledComponent] = {}
    for name, component in spec.components.items():

        def tell(location: Location, message: str, name: str = name) -> None:
            problems.append(source.problem(("components", name, *location), message))

        components[name] = compiled(name, component, spec.settings(name), tell)
    known = source.value["components"].keys()
    found_there = chain(
        field_checks.field_problems(spec),
        tree_checks.agent_problems(spec),
        tree_checks.tree_problems(spec, known, structured.whole),
        tree_checks.binding_problems(spec, components, structured.whole),
    )
    problems += [source.problem(location, message) for location, message in islice(found_there, MAX_PROBLEMS + 1)]
    if problems:
        raise BlueprintError(problems, source.label)
    text = _canonical(source)
    digest = f"sha256:{sha256(text.encode()).hexdigest()}"
    return Blueprint(spec, digest, text, MappingProxyType(components))


def _canonical(source: ParsedBlueprint) -> str:
    """Compact JSON with keys in their original order, which is the display order of fields and children."""
    try:
        return json.dumps(source.value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        problem = BlueprintProblem(None, "", "It contains a number that JSON does not have")
        raise BlueprintError((problem,), source.label) from error
