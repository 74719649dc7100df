"""Resource limits of one program in the sandbox, together with all that it starts."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass

from mcc.configuration.network import Sandbox

_MB = 1 << 20
_OPEN_FILES = 1024
_MOST_SHARED = 64 * _MB


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """`memory_bytes`, `processes` and `cpus` (CPU seconds a second) are for the whole program; `tmp_bytes` is the size
    of the private /tmp, `file_bytes` the largest size of each file."""

    memory_bytes: int = 2048 * _MB
    processes: int = 256
    cpus: float = 2.0
    tmp_bytes: int = 512 * _MB
    file_bytes: int = 1024 * _MB

    @classmethod
    def of(cls, table: Sandbox) -> "ProgramLimits":
        """The limits of the operator's `[sandbox]` table."""
        memory, tmp, file = (value * _MB for value in (table.memory_mb, table.tmp_mb, table.file_mb))
        return cls(memory, table.processes, table.cpus, tmp, file)

    @property
    def shared_bytes(self) -> int:
        """The size of /dev/shm: that of /tmp, 64 MB at most."""
        return min(self.tmp_bytes, _MOST_SHARED)

    def of_each(self, *, together: bool = False) -> Mapping[int, int]:
        """Limits that the kernel enforces for each process (`RLIMIT_…`), in the kernel's units.

        `together`: a control group bounds the memory of all processes, so RLIMIT_AS is left out: it would only keep
        programs from reserving address space.
        """
        addresses = {} if together else {resource.RLIMIT_AS: self.memory_bytes}
        return addresses | {
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_FSIZE: self.file_bytes,
            resource.RLIMIT_NOFILE: _OPEN_FILES,
            resource.RLIMIT_CORE: 0,
        }


DEFAULT = ProgramLimits()
