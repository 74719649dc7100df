"""What a campaign's family stands on that others do not have: a PostgreSQL of its own, small disks.

What cannot be had on a machine is missing with its reason, and so is the harm that would be done to it.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.faults.disks import SmallDisk
from tests.faults.plan import Plan
from tests.faults.postgres import Postgres

D = TypeVar("D", bound=SmallDisk)


@dataclass(frozen=True, slots=True)
class Ground:
    """`plan` as it is carried out here. `disks` by what is on them; `missing`: harm that cannot be done, and why."""

    plan: Plan
    postgres: Postgres | None = None
    disks: Mapping[str, SmallDisk] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def common_ground(directory: Path, plan: Plan) -> Iterator[Ground]:
    """As every family has it."""
    yield Ground(plan)


@contextmanager
def kept(path: Path, disk: AbstractContextManager[D]) -> Iterator[D]:
    """A disk at `path`; when it is gone, what it held is there all the same. Raises `NoDisk`."""
    copy = path.with_name(f"{path.name}.copy")
    try:
        with disk as mounted:
            try:
                yield mounted
            finally:
                with suppress(OSError):
                    mounted.empty()
                subprocess.run(["cp", "-a", str(path), str(copy)], check=True)
    finally:
        if copy.exists():
            path.rmdir()
            copy.rename(path)
