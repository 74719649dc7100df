"""Paths in one environment variable, so that no directory's name is taken for several."""

import json
import os
from collections.abc import Sequence


def paths_in(text: str) -> tuple[str, ...]:
    """Paths between commas or colons (`os.pathsep`), or a JSON array of them where names have such characters."""
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list) and all(isinstance(path, str) for path in found):
            return tuple(found)
    return tuple(part.strip() for part in text.replace(os.pathsep, ",").split(",") if part.strip())


def as_text(paths: Sequence[str]) -> str:
    """What `paths_in` reads as these paths."""
    plain = os.pathsep.join(paths)
    return plain if paths_in(plain) == tuple(paths) else json.dumps(list(paths))
