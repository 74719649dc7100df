"""Git repositories for tests, made by the git of this machine outside of any sandbox."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ANN: Mapping[str, str] = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
}


class Scene:
    """A repository at `root`, made empty."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *options)

    @classmethod
    def existing(cls, root: Path) -> "Scene":
        """The repository that exists at `root`."""
        scene = cls.__new__(cls)
        scene.root = root
        return scene

    def git(self, *arguments: str, fed: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments],
            input=fed,
            cwd=self.root,
            env={**ANN, "PATH": os.environ["PATH"], "HOME": str(self.root)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def raw_message(self) -> str:
        """The message of the last commit as it is stored, without the line end that git puts behind it."""
        done = subprocess.run(["git", "cat-file", "commit", "HEAD"], cwd=self.root, check=True, capture_output=True)
        return done.stdout.partition(b"\n\n")[2].decode().removesuffix("\n")

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str, files: Mapping[str, str | bytes]) -> str:
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")
