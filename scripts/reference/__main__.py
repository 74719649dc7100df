"""The command: `python -m scripts.reference` writes the pages, `--check` says which differ."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from scripts.reference import (
    blueprints,
    cel,
    channels,
    commands,
    http,
    journal,
    protected_names,
    providers,
    settings,
    states,
    tools,
)

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = "<!-- Written by `python -m scripts.reference`; do not edit. -->"


def _page(lines: Callable[[], Iterable[str]]) -> Callable[[], str]:
    return lambda: "\n".join((SOURCE, "", *lines())).rstrip("\n") + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/configuration.md": _page(settings.page),
    "reference/journal.md": _page(journal.page),
    "reference/http.md": _page(http.page),
    "reference/channels.md": _page(channels.page),
    "reference/tools.md": _page(tools.page),
    "reference/cli.md": _page(commands.page),
    "reference/protected-names.md": _page(protected_names.page),
    "reference/providers.md": _page(providers.page),
    "reference/cel.md": _page(cel.page),
    "reference/blueprints.md": _page(blueprints.page),
    "reference/channels.schema.json": channels.schemas,
    "states.md": _page(states.page),
}


def differing() -> list[str]:
    """The pages that are not what the code says."""
    return [name for name, page in PAGES.items() if _text(DOCS / name) != page()]


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    stale = differing()
    if "--check" in arguments:
        print("\n".join(f"docs/{name} differs: python -m scripts.reference" for name in stale) or "Nothing differs.")
        return 1 if stale else 0
    for name in stale:
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGES[name](), "utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
