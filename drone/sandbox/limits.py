"""How much of the machine one program of the sandbox may use, with all that it starts."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass

from mcc.configuration.network import Sandbox

_MB = 1 << 20
_OPEN_FILES = 1024
_MOST_SHARED = 64 * _MB


@dataclass(frozen=True, slots=True)
class Limits:
    """`cpus`: processors' worth of time. `tmp_bytes` are those of the private /tmp, `file_bytes` of each file."""

    memory_bytes: int = 2048 * _MB
    processes: int = 256
    cpus: float = 2.0
    tmp_bytes: int = 512 * _MB
    file_bytes: int = 1024 * _MB

    @classmethod
    def of(cls, table: Sandbox) -> "Limits":
        """As the operator wrote them."""
        memory, tmp, file = (value * _MB for value in (table.memory_mb, table.tmp_mb, table.file_mb))
        return cls(memory, table.processes, table.cpus, tmp, file)

    @property
    def shared_bytes(self) -> int:
        """Of /dev/shm."""
        return min(self.tmp_bytes, _MOST_SHARED)

    def of_each(self, *, together: bool = False) -> Mapping[int, int]:
        """What the kernel holds each process to (`RLIMIT_…`), in bytes or as it counts.

        `together`: memory of all of them is bounded already, so that nobody is kept from reserving addresses.
        """
        addresses = {} if together else {resource.RLIMIT_AS: self.memory_bytes}
        return addresses | {
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_FSIZE: self.file_bytes,
            resource.RLIMIT_NOFILE: _OPEN_FILES,
            resource.RLIMIT_CORE: 0,
        }


DEFAULT = Limits()
