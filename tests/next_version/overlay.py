"""Makes the next version: a copy of the packages with a second schema, a second journal version and its conversion."""

import shutil
import sys
from pathlib import Path

from mcc.contracts.journal import JOURNAL_VERSION
from mcc.store.database.migrate import revisions

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
COPIED = ("mcc", "drone", "prompts")
NEWEST = revisions()[-1]
NEXT = f"r{int(NEWEST[1:]) + 1:03}"
"""The schema of this version, and of the next one."""

EDITS = {
    "mcc/contracts/journal.py": (
        (f"JOURNAL_VERSION = {JOURNAL_VERSION}\n", f"JOURNAL_VERSION = {JOURNAL_VERSION + 1}\n"),
        (f", {JOURNAL_VERSION}}})\n", f", {JOURNAL_VERSION}, {JOURNAL_VERSION + 1}}})\n"),
    ),
    "mcc/contracts/upcast.py": (("_UPCASTS: Mapping[str, Upcast] = {", (HERE / "upcast_of_origins.txt").read_text()),),
    "mcc/definitions/scopes.py": (("path=places.get(scope, installed))", 'path=f"2:{places.get(scope, installed)}")'),),
}
"""File to pairs of what stands there once and what stands in its place."""


def _copy_bytecode(name: str, folder: Path) -> None:
    """What is compiled of a package, where it does not lie beside it. Valid for the copy too, whose files are as old:
    otherwise each of its programs would compile six hundred modules."""
    if sys.pycache_prefix is not None:
        given, copied = (Path(f"{sys.pycache_prefix}{place.resolve()}") / name for place in (ROOT, folder))
        if given.is_dir():
            shutil.copytree(given, copied)


def make(folder: Path) -> Path:
    """Write the next version's packages into `folder`; whoever has it first on its path is of that version."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
        _copy_bytecode(name, folder)
    for file, edits in EDITS.items():
        path = folder / file
        text = path.read_text()
        for old, new in edits:
            assert text.count(old) == 1, f"{file} has this {text.count(old)} times: {old}"
            text = text.replace(old, new)
        path.write_text(text)
    migration = (HERE / "praise.txt").read_text().replace("NEWEST", NEWEST).replace("NEXT", NEXT)
    (folder / f"mcc/store/migrations/versions/{NEXT}_praise.py").write_text(migration)
    return folder
