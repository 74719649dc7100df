"""The garbage collector never scans the modules of a long-running process."""

import json
import subprocess
import sys

LOADED = """
import gc, json
from mcc.loading import gc_frozen_after
collected = []
gc.callbacks.append(lambda phase, info: collected.append(info))
with gc_frozen_after():
    import mcc.contracts.order
    while_loading = len(collected)
before, kept = len(gc.get_objects()), gc.get_freeze_count()
made = [[number] for number in range(1_000)]
print(json.dumps({"while": while_loading, "kept": kept, "left": before, "again": len(collected) > 0}))
"""


def test_what_is_loaded_for_good_is_collected_neither_while_it_comes_nor_later() -> None:
    said = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    found = json.loads(said)
    assert found["while"] == 0
    assert found["again"], "whatever comes later is collected as ever"
    assert found["kept"] > 10_000
    assert found["left"] < 1_000
