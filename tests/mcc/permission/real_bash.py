"""Runs many shell texts by the real bash, in a sandbox where there is one, and tells which of them ran `git push`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

LINE, TAB = "⏎", "⇥"
FORMS = Path(__file__).parents[2] / "fixtures" / "shell"

_STUB = """#!/bin/sh
[ "$1" = push ] && : > "OUT/${FORM:-lost}"
"""
_DRIVER = r"""
number=FIRST
while IFS= read -r -d '' form; do
  cd "WORK/$number" || exit 3
  FORM=$number timeout -k 0.2 3 bash -c "$form" </dev/null >/dev/null 2>&1
  [ -e OUT/lost ] && mv OUT/lost "OUT/$number"
  number=$((number + STEP))
done < FORMS
cd /
"""


def forms(name: str) -> list[str]:
    """The texts of a file of `tests/fixtures/shell`, without its headings."""
    lines = (FORMS / name).read_text("utf-8").splitlines()
    return [one.replace(LINE, "\n").replace(TAB, "\t") for one in lines if one and not one.startswith(("# ", "## "))]


def sandboxed() -> bool:
    """Whether bubblewrap works here."""
    bwrap = shutil.which("bwrap")
    return bwrap is not None and subprocess.run([*_walls(Path("/tmp"), Path("/bin/true")), "true"]).returncode == 0


def _walls(room: Path, stub: Path) -> list[str]:
    git = os.path.realpath(shutil.which("git") or "/usr/bin/git")
    walls = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all"]
    walls += ["--die-with-parent", "--new-session", "--bind", str(room), str(room)]
    return [*walls, *(["--ro-bind", str(stub), git] if os.path.exists(git) and stub.name == "git" else [])]


def that_push(texts: Sequence[str], room: Path, *, at_once: int = 2) -> set[int]:
    """The places of the texts that run `git push`, each for at most 3 s, in an own directory below `room`."""
    parts = [room / str(first) for first in range(at_once)]
    running = [_started(texts, part, place, at_once) for place, part in enumerate(parts)]
    for one in running:
        assert one.wait() == 0
    return {int(one.name) for part in parts for one in (part / "out").iterdir() if one.name.isdecimal()}


def _started(texts: Sequence[str], room: Path, first: int, step: int) -> subprocess.Popen[bytes]:
    """A process that runs every `step`-th text; what runs `git push` is named in `room/out`."""
    out, work, stub = room / "out", room / "work", room / "bin" / "git"
    for made in (out, work, stub.parent):
        made.mkdir(parents=True)
    stub.write_text(_STUB.replace("OUT", str(out)))
    stub.chmod(0o755)
    for place in range(first, len(texts), step):
        (work / str(place)).mkdir()
    listed = room / "forms"
    listed.write_bytes(b"".join(one.encode() + b"\0" for one in texts[first::step]))
    driver = _DRIVER.replace("FIRST", str(first)).replace("STEP", str(step)).replace("FORMS", str(listed))
    driver = driver.replace("WORK", str(work)).replace("OUT", str(out))
    walls = _walls(room, stub) if sandboxed() else []
    environment = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "HOME": str(room), "LC_ALL": "C.UTF-8"}
    return subprocess.Popen([*walls, "bash", "-c", driver], env=environment, cwd=room, stderr=subprocess.DEVNULL)
