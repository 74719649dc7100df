"""Logs of JSON lines, written by several threads and read when they are whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any


class JsonLines:
    """Appends objects to a file, one a line; it is there from the beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        path.touch()

    def write(self, line: Mapping[str, object]) -> None:
        text = json.dumps(line) + "\n"
        with self._lock, self._path.open("a") as file:
            file.write(text)


def read(path: Path) -> list[dict[str, Any]]:
    """All objects of a file; none when it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
