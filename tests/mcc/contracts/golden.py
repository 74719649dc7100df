"""The golden files: `python -m tests.mcc.contracts.golden` writes them anew after a wanted change of a contract.

A change here is a change of what other versions read: raise `JOURNAL_VERSION` when an older drone could not, and keep
the journal entries of the version before in a directory of their own beside the new ones.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from mcc.contracts.shape import to_json
from tests.mcc.contracts.samples import SAMPLES

FOLDER = Path(__file__).parent / "golden"


def canonical(sample: BaseModel) -> bytes:
    """What `to_json` writes of it, keys sorted and indented, so that a difference can be read."""
    text = json.dumps(json.loads(to_json(sample)), indent=1, sort_keys=True, ensure_ascii=True)
    return f"{text}\n".encode()


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        path.unlink()
    for name, sample in SAMPLES.items():
        (FOLDER / f"{name}.json").write_bytes(canonical(sample))


if __name__ == "__main__":
    write()
