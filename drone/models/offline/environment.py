"""What `environment_detect` tells: how much there is, how it is started, which commit it is."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drone.models.offline.languages import is_aside, is_test

_PLAIN_LINES = 3


@dataclass(frozen=True, slots=True)
class Environment:
    """`starts` are lines about how things are started, `facts` other lines; `files` is the count of all files.

    `has_git` is False only where the result says that there is no repository.
    """

    files: int | None = None
    starts: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    has_git: bool = True


def environment(text: str) -> Environment:
    """Read the result, which is a JSON object or plain lines."""
    try:
        document = json.loads(text)
    except ValueError:
        lines = [line.strip(" -*") for line in text.splitlines() if line.strip(" -*{}[]")]
        return Environment(facts=tuple(line[:160] for line in lines[:_PLAIN_LINES]))
    if not isinstance(document, dict):
        return Environment()
    files = document.get("files")
    return Environment(
        files=files if isinstance(files, int) and not isinstance(files, bool) else None,
        starts=tuple(_starts(document.get("entry_points"))),
        facts=tuple(_facts(document)),
        has_git=document.get("git", True) is not None,
    )


def _starts(points: object) -> Iterator[str]:
    known = [point for point in points if isinstance(point, dict)] if isinstance(points, list) else []
    targets = [point for point in known if point.get("kind") == "make target"]
    for point in known:
        if point not in targets and point.get("name") and not _is_aside(point):
            kind, name = point.get("kind") or "start", point["name"]
            target = f" → `{point['target']}`" if point.get("target") else ""
            where = f" (`{point['file']}`)" if point.get("file") else ""
            yield f"{kind} `{name}`{target}{where}"


def _is_aside(point: Mapping[str, Any]) -> bool:
    path = str(point.get("file") or "")
    return is_aside(path) or is_test(path)


def _facts(document: Mapping[str, Any]) -> Iterator[str]:
    git = document.get("git")
    if isinstance(git, dict) and git.get("head"):
        yield f"git branch `{git.get('branch')}` at `{str(git['head'])[:10]}`"
