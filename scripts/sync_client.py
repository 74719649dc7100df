"""Writes the blocking client out of the awaited one; with `--check` it only says whether they differ."""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "mcc" / "client"
AWAITED, BLOCKING = CLIENT / "asynchronous.py", CLIENT / "synchronous.py"

# Patterns of our own instead of `unasync`: that leaves alone what stands in annotations in quotes.
SUBSTITUTIONS = (
    (r'""".*\n', '"""Client for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""\n'),
    (r"\bimport asyncio\n", "import time\n"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bA?sync(MCC|Client|BaseTransport|Generator|ExitStack)\b", r"\1"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(closing|close|read|iter_bytes)\b", r"\1"),
    (r"\benter_async_context\b", "enter_context"),
)


def blocking(awaited: str) -> str:
    """The source of the blocking client for that of the awaited one."""
    for position, (pattern, replacement) in enumerate(SUBSTITUTIONS):
        awaited = re.sub(pattern, replacement, awaited, count=1 if position == 0 else 0)
    for rules in (("check", "--quiet", "--fix-only", "--unsafe-fixes", "--select", "I,UP028"), ("format", "--quiet")):
        command = [Path(sys.executable).with_name("ruff"), *rules, "--stdin-filename", BLOCKING, "-"]
        awaited = subprocess.run(command, input=awaited, capture_output=True, text=True, check=True).stdout
    return awaited


def main(arguments: list[str]) -> int:
    written = blocking(AWAITED.read_text("utf-8"))
    if BLOCKING.exists() and BLOCKING.read_text("utf-8") == written:
        return 0
    if "--check" in arguments:
        print(f"{BLOCKING.name} is not what {AWAITED.name} makes: python -m scripts.sync_client", file=sys.stderr)
        return 1
    BLOCKING.write_text(written, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
