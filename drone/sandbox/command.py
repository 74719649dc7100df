"""One program as it is asked for, and bubblewrap's command line for it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, TypeVar

from drone.sandbox import seccomp
from drone.sandbox.child import Bounds
from drone.sandbox.guard import Guard
from drone.sandbox.limits import Limits
from drone.sandbox.masks import Hidden, Overlays, hidden, in_memory, mask
from drone.sandbox.paths import Workspace
from drone.sandbox.profile import (
    READ_ONLY,
    WORKSPACE,
    Mount,
    Profile,
    mounted,
    only_there,
    options,
    spelled,
    workspace_mount,
)

T = TypeVar("T")


class Look(Protocol):
    """Looks at files where that holds up nobody: the disk may be slow."""

    async def __call__(self, look: Callable[[], T], /) -> T: ...


async def at_once(look: Callable[[], T], /) -> T:
    return look()


class How(TypedDict, total=False):
    """What may be said of a `Call`, and has a default there."""

    profile: Profile
    environment: Mapping[str, str]
    instead: Mapping[str, bytes]
    look: Look
    cwd: str
    mounts: Sequence[Mount]


@dataclass(frozen=True, slots=True)
class Call:
    """One program, as it is asked for: in `cwd`, a directory of the workspace (relative, without links).

    `environment` is added to `ENVIRONMENT`. `instead`: files of the workspace (relative paths), or of a mount (absolute
    ones), that the child sees with another content. In place of what is private it sees empty directories and files;
    `look` finds that. `mounts`: further directories; they stay the caller's.
    """

    argv: Sequence[str]
    workspace: Workspace
    bounds: Bounds
    profile: Profile = READ_ONLY
    environment: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, bytes] = field(default_factory=dict)
    look: Look = at_once
    cwd: str = "."
    mounts: Sequence[Mount] = ()

    @property
    def mounted(self) -> tuple[Mount, ...]:
        return (workspace_mount(self.workspace, self.profile), *self.mounts)


@dataclass(frozen=True, slots=True)
class Maker:
    """A bubblewrap: what it takes, and what it is told for every program."""

    program: str
    limits: Limits
    by_descriptor: bool = True
    disables_userns: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found of a call's directories before it."""

    private: Hidden
    guard: Guard | None = None


class CommandLine(Protocol):
    """What starts a program: `descriptors` are inherited, and closed with it."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    environment: Mapping[str, str]

    def close(self) -> None: ...


class Command:
    """Bubblewrap's command line, and the descriptors that it names. What it says of the machine is in one of them
    (`--args`), as the program inside can read the line itself."""

    def __init__(self, maker: Maker, call: Call, seen: Seen, leash: Sequence[str] = ()) -> None:
        network = call.profile.egress
        nothing = {path: b"" for path, is_directory in seen.private.items() if not is_directory}
        shown = {os.path.join(WORKSPACE, name): content for name, content in call.instead.items()}
        self._over, self._new = Overlays({**shown, **nothing}), Overlays(dict(network.files) if network else {})
        self._filter = in_memory(seccomp.program() or b"")
        variables = {**call.environment, **(network.environment if network else {})}
        words = (
            *leash,
            *options(variables, maker.limits, disable_userns=maker.disables_userns),
            *("--seccomp", str(self._filter)),
            *spelled(call.workspace),
            *mounted(call.mounted, by_descriptor=maker.by_descriptor),
            *(seen.guard.options if seen.guard else ()),
            *self._new.options,
            *("--remount-ro", "/"),
            *("--chdir", os.path.normpath(os.path.join(WORKSPACE, call.cwd))),
            *self._over.options,
            *(word for path, is_directory in seen.private.items() if is_directory for word in mask(path)),
        )
        self._words = in_memory(b"".join(os.fsencode(word) + b"\0" for word in words))
        started = call.argv if maker.by_descriptor else (*only_there(call.mounted), *call.argv)
        self.environment: Mapping[str, str] = {}
        self.argv: tuple[str, ...] = (maker.program, "--args", str(self._words), "--", *started)
        self.descriptors: tuple[int, ...] = (
            *(mount.fd for mount in call.mounted),
            *self._over.descriptors,
            *self._new.descriptors,
            *(seen.guard.descriptors if seen.guard else ()),
            self._filter,
            self._words,
        )

    def close(self) -> None:
        for overlays in (self._over, self._new):
            overlays.close()
        os.close(self._filter)
        os.close(self._words)


def looked_at(call: Call, guard: Guard) -> Hidden:
    """What is private; what is protected is guarded where the program may write. Raises OSError.

    A program of ours, git, writes to further directories while the workspace is read-only: it knows what it does.
    """
    for mount in call.mounted if call.profile.write else ():
        if mount.write:
            guard.over(mount.fd, mount.at)
    return hidden(call.workspace)


async def looked_after(call: Call, guard: Guard) -> tuple[str, ...]:
    try:
        return await call.look(guard.undone) if guard.holds else ()
    except Exception:
        # There is no thread for it any more: better late than not at all.
        return guard.undone()
    finally:
        guard.close()
