"""Writes the golden files: run `python -m tests.mcc.contracts.golden` after an intended change of a contract.

A change in these files means that other versions read something different. If an older drone could not read it, raise
`JOURNAL_VERSION`, keep the entries of the previous version in a directory `version-N` beside the new ones, and convert
them in `mcc/contracts/upcast.py`.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from mcc.contracts.shape import to_json
from tests.mcc.contracts.samples import SAMPLES

FOLDER = Path(__file__).parent / "golden"


def canonical(sample: BaseModel) -> bytes:
    """The sample as `to_json` writes it, indented and with sorted keys, so that differences are readable."""
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
