"""Which workspaces of this host may have checkpoints of calls that were cut off.

What such a call changed is known as long as nobody else has written there. A link for each workspace in which orders
write leads whoever writes above or below it there first. It is named by the key of the workspace, as its store is.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

_LINKS = "unfinished"


@dataclass(frozen=True, slots=True)
class UnfinishedWorkspaces:
    """The links beside the stores in `directory`. Methods block, and raise OSError."""

    directory: Path

    def note(self, key: str, root: Path) -> None:
        """An order is about to write in the workspace `root`. May be repeated."""
        links = self.directory / _LINKS
        links.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.symlink(root, links / key)

    def forget(self, key: str) -> None:
        """Every call there is over. Nothing happens if that was known."""
        with suppress(FileNotFoundError):
            os.unlink(self.directory / _LINKS / key)

    def around(self, root: PurePath) -> Iterator[tuple[str, Path]]:
        """Key and root of the noted workspaces that lie above or below this one."""
        links = self.directory / _LINKS
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(links)):
                with suppress(FileNotFoundError):
                    noted = Path(os.readlink(links / name))
                    if noted != root and (noted.is_relative_to(root) or root.is_relative_to(noted)):
                        yield name, noted
