"""A few of the orders that destroy what they work in; `python -m tests.faults.destructive` does a thousand."""

import subprocess
import sys

ORDERS = 12


def test_what_orders_destroyed_comes_back_byte_for_byte() -> None:
    command = [sys.executable, "-m", "tests.faults.destructive", "--orders", str(ORDERS), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{ORDERS} of {ORDERS} restored")
