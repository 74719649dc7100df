"""The catalogue of blueprints by name: the operator's files, shipped ones, and those uploaded to the service."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, Protocol, TypeAlias

from mcc.configuration.places import NotPrivate, refuse_others
from mcc.contracts.similar import did_you_mean
from mcc.documents.blueprint import Blueprint, blueprint_files, shipped_blueprints
from mcc.documents.reading import BlueprintError

Origin: TypeAlias = Literal["shipped", "operator", "kept"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offered:
    """A blueprint in the catalogue, and where it comes from."""

    blueprint: Blueprint
    origin: Origin


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    origin: Origin


class UnlistedBlueprint(LookupError):
    """There is no blueprint of this name. The message is a sentence that suggests the nearest name."""


class BlueprintSource(Protocol):
    """Uploaded blueprints. `find` answers the newest one of a name, or the one whose digest begins with `digits`."""

    def find(self, name: str, digits: str | None = None) -> Blueprint | None: ...

    def list(self) -> Sequence[Blueprint]: ...


class Catalogue:
    """Looks up blueprints. Safe for several threads; every call blocks. A file that has changed is read again.

    A name means the operator's file in `own`, else a shipped blueprint, else the newest uploaded one (`kept`);
    `name:DIGEST12` means exactly the content with that digest. Files in `own` are ignored if others can write it.
    """

    def __init__(self, own: Path, kept: BlueprintSource | None = None) -> None:
        self._folder = own
        self._kept = kept
        self._read: dict[Path, tuple[tuple[int, int], Blueprint]] = {}
        self._lock = Lock()

    def find(self, reference: str) -> Offered:
        """The blueprint of `name`, or of `name:DIGEST12`. Raises `UnlistedBlueprint`, `BlueprintError`."""
        name, _, digits = reference.partition(":")
        files = self._files()
        file = files.get(name)
        if file is not None:
            offered = Offered(self._blueprint(file.path), file.origin)
            if offered.blueprint.digest.removeprefix("sha256:").startswith(digits):
                return offered
        kept = self._kept.find(name, digits or None) if self._kept is not None else None
        if kept is not None:
            return Offered(kept, "kept")
        if digits:
            raise UnlistedBlueprint(f"There is no blueprint {name[:80]!r} whose digest begins with {digits[:64]!r}.")
        kept_names = (blueprint.name for blueprint in (self._kept.list() if self._kept is not None else ()))
        known = {*files, *kept_names}
        raise UnlistedBlueprint(f"There is no blueprint {name[:80]!r}{did_you_mean(name[:80], known)}.")

    def usable(self, on_error: Callable[[BlueprintError], None]) -> Iterator[Offered]:
        """Every blueprint that a plain name stands for, files first. `on_error` gets the errors of unusable files."""
        files = self._files()
        for _, file in sorted(files.items()):
            try:
                yield Offered(self._blueprint(file.path), file.origin)
            except BlueprintError as error:
                on_error(error)
        for kept in self._kept.list() if self._kept is not None else ():
            if kept.name not in files:
                yield Offered(kept, "kept")

    def _files(self) -> Mapping[str, _File]:
        shipped = {name: _File(path, "shipped") for name, path in blueprint_files((shipped_blueprints(),)).items()}
        return {**shipped, **{name: _File(path, "operator") for name, path in _own(self._folder).items()}}

    def _blueprint(self, path: Path) -> Blueprint:
        try:
            status = path.stat()
        except OSError:
            return Blueprint.load(path)
        stamp = (status.st_mtime_ns, status.st_size)
        with self._lock:
            known = self._read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        blueprint = Blueprint.load(path)
        with self._lock:
            self._read[path] = (stamp, blueprint)
        return blueprint


def _own(folder: Path) -> Mapping[str, Path]:
    """The operator's blueprint files by name; none (with a warning in the log) when others can write the folder."""
    try:
        refuse_others(folder.stat(), folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, NotPrivate) as error:
        log.warning("no blueprint of %s is read: %s", folder, error)
        return {}
    return blueprint_files((folder,))
