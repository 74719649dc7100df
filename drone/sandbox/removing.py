"""Deleting a directory with all that is in it."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path


def remove(directory: Path) -> None:
    """Whatever rights the programs that worked in there took from it, it goes."""

    def open_up(function: Callable[..., object], path: str, _: object) -> None:
        if not os.path.lexists(path):
            return
        for one in (os.path.dirname(path), path):
            if stat.S_ISDIR(os.lstat(one).st_mode):
                os.chmod(one, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    if directory.exists():
        shutil.rmtree(directory, onerror=open_up)
