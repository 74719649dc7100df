"""Writes the blocking client out of the awaited one; with `--check` it only says whether they differ."""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "mcc" / "client"
FILES = {
    CLIENT / "asynchronous.py": CLIENT / "synchronous.py",
    CLIENT / "async_connection.py": CLIENT / "sync_connection.py",
    CLIENT / "async_documents.py": CLIENT / "sync_documents.py",
    CLIENT / "async_artifacts.py": CLIENT / "sync_artifacts.py",
    CLIENT / "async_inbox.py": CLIENT / "sync_inbox.py",
    CLIENT / "async_fleet.py": CLIENT / "sync_fleet.py",
    CLIENT / "async_reading.py": CLIENT / "sync_reading.py",
    CLIENT / "async_sessions.py": CLIENT / "sync_sessions.py",
    CLIENT / "async_signins.py": CLIENT / "sync_signins.py",
    CLIENT / "async_people.py": CLIENT / "sync_people.py",
    CLIENT / "async_schedules.py": CLIENT / "sync_schedules.py",
    CLIENT / "async_webhooks.py": CLIENT / "sync_webhooks.py",
}
"""From the awaited one to the blocking one."""

# Patterns of our own instead of `unasync`: that leaves alone what stands in annotations in quotes.
SUBSTITUTIONS = (
    (
        r" for an event loop: every call is awaited\.",
        " for ordinary code: every call blocks. Written by `python -m scripts.sync_client`.",
    ),
    (
        r"\basync_(connection|documents|artifacts|reading|sessions|inbox|fleet|signins|people|schedules|webhooks)\b",
        r"sync_\1",
    ),
    (r"\bimport asyncio\n", "import time\n"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bA?sync(MCC|Client|BaseTransport|Generator|ExitStack)\b", r"\1"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(closing|close|read|iter_bytes)\b", r"\1"),
    (r"\benter_async_context\b", "enter_context"),
)


def blocking(awaited: str, file: Path) -> str:
    """The source of the blocking client for that of the awaited one; `file` is where it belongs."""
    for pattern, replacement in SUBSTITUTIONS:
        awaited = re.sub(pattern, replacement, awaited)
    for rules in (("check", "--quiet", "--fix-only", "--unsafe-fixes", "--select", "I,UP028"), ("format", "--quiet")):
        command = [Path(sys.executable).with_name("ruff"), *rules, "--stdin-filename", file, "-"]
        awaited = subprocess.run(command, input=awaited, capture_output=True, text=True, check=True).stdout
    return awaited


def main(arguments: list[str]) -> int:
    differing = 0
    for awaited, file in FILES.items():
        written = blocking(awaited.read_text("utf-8"), file)
        if file.exists() and file.read_text("utf-8") == written:
            continue
        if "--check" in arguments:
            differing += 1
            print(f"{file.name} is not what {awaited.name} makes: python -m scripts.sync_client", file=sys.stderr)
        else:
            file.write_text(written, "utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
