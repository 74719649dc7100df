"""The manifests of a workspace: what they declare, read within bounds, the hard ones in a process of their own."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import islice
from threading import Event
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from drone.sandbox.paths import PathError, Workspace
from drone.tools.entry_points import EntryPoint, entry_points
from drone.tools.naming import written
from drone.tools.walk import read_up_to

MAX_BYTES = 256_000
MAX_MANIFESTS = 100
MAX_DECLARED = 1_000
"""The longest manifest that is read, how many are, and what of one is told."""

SECONDS = 10.0
"""How long all of them may take together."""

_EACH_SECONDS = 1.0
_PLAIN_BYTES = 64_000
_PLAIN_TOML_BYTES = 4_000
"""What is read at once, of all of them together and of one in TOML: its reader takes 40 ms at worst for as much."""


class Manifests:
    """Reads one manifest after the other. `notes` gathers what could not be read, `found` what was declared."""

    def __init__(self, workspace: Workspace, stop: Event, *, seconds: float = SECONDS) -> None:
        self._workspace = workspace
        self._stop = stop
        self._seconds = seconds
        self._plain_bytes = _PLAIN_BYTES
        self.found: list[EntryPoint] = []
        self.notes: list[str] = []

    def read(self, paths: Sequence[str]) -> None:
        until = time.monotonic() + self._seconds
        with closing(Aside(reading, self._stop)) as aside:
            for number, path in enumerate(paths[:MAX_MANIFESTS]):
                if time.monotonic() > until or self._stop.is_set():
                    self.notes.append(f"{len(paths) - number:,} build files were not read: it took too long.")
                    return
                try:
                    self._declared(path, self._declarations(aside, path, _text(self._workspace, path)))
                except (PathError, OSError, ValueError, RecursionError, CutOff) as error:
                    self.notes.append(f"{written(path)} could not be read: {str(error)[:200]}")

    def _declarations(self, aside: Aside, path: str, text: str) -> Iterable[Sequence[str]]:
        if len(text) <= min(self._plain_bytes, _PLAIN_TOML_BYTES if path.endswith(".toml") else _PLAIN_BYTES):
            self._plain_bytes -= len(text)
            return declared(path, text)
        found: Iterable[Sequence[str]] = aside.ask({"path": path, "text": text}, _EACH_SECONDS)
        return found

    def _declared(self, path: str, found: Iterable[Sequence[str]]) -> None:
        starts = [EntryPoint(kind, name, target, path) for kind, name, target in found]
        self.found.extend(starts[:MAX_DECLARED])
        if len(starts) > MAX_DECLARED:
            self.notes.append(f"{written(path)} declares more than {MAX_DECLARED:,} entry points.")


def declared(path: str, text: str) -> list[tuple[str, str, str]]:
    """Kind, name and target of what the manifest at `path` declares. Raises ValueError and RecursionError."""
    return [(one.kind, one.name, one.target) for one in islice(entry_points(path, text), MAX_DECLARED + 1)]


def reading() -> Callable[[Any], object]:
    """What the process aside does."""

    def read(question: Any) -> object:
        try:
            return declared(question["path"], question["text"])
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error

    return read


def _text(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        data = read_up_to(file.fileno(), MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES:,} bytes")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
