"""The way out of one sandbox: what a program there is given to reach the few hosts that it may reach."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Network(Protocol):
    """Of one program. Without one, its sandbox has a network of its own in which there is nothing."""

    async def prepare(self) -> None:
        """Before anything else here is asked for. Raises OSError where there is no way out."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the program is given."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """What stands at these absolute paths in the sandbox, to be read only."""

    async def attach(self, first: int) -> None:
        """Lay the way, before the program begins: `first` is a descriptor (pidfd) of the sandbox's first process, whose
        namespaces are there. Raises OSError where it cannot be laid; the program is not started then.
        """

    async def detach(self) -> None:
        """The program has ended, or never began: nothing goes this way any more."""

    @property
    def denied(self) -> Sequence[str]:
        """What the program asked for in vain, each as `host:port`, once it is detached."""
