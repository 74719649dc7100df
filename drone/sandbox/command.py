"""One call of a program, and bubblewrap's command line for it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, TypeVar

from drone.sandbox import seccomp
from drone.sandbox.child import Bounds
from drone.sandbox.limits import ProgramLimits
from drone.sandbox.masks import Hidden, Overlays, hidden, in_memory, mask
from drone.sandbox.places.paths import Workspace
from drone.sandbox.profile import (
    READ_ONLY,
    WORKSPACE,
    Mount,
    Profile,
    if_unmoved,
    mounted,
    options,
    own_paths,
    workspace_mount,
)
from drone.sandbox.protection.guard import PathGuard

T = TypeVar("T")


class RunBlocking(Protocol):
    """Runs a function that reads the disk, which may be slow, where it blocks no event loop."""

    async def __call__(self, look: Callable[[], T], /) -> T: ...


async def at_once(look: Callable[[], T], /) -> T:
    return look()


class CallOptions(TypedDict, total=False):
    """The optional fields of a `ProgramCall`, as keyword arguments."""

    profile: Profile
    environment: Mapping[str, str]
    instead: Mapping[str, bytes]
    look: RunBlocking
    cwd: str
    mounts: Sequence[Mount]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A program to run: `argv`, in `cwd`, a directory of the workspace (relative, without links).

    `environment` is added to `ENVIRONMENT`. `instead`: files of the workspace (relative paths) or of a mount (absolute
    paths) that the program sees with another content. Private files and directories appear empty; `look` runs the
    search for them. `mounts`: further directories, whose descriptors stay the caller's.
    """

    argv: Sequence[str]
    workspace: Workspace
    bounds: Bounds
    profile: Profile = READ_ONLY
    environment: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, bytes] = field(default_factory=dict)
    look: RunBlocking = at_once
    cwd: str = "."
    mounts: Sequence[Mount] = ()

    @property
    def mounted(self) -> tuple[Mount, ...]:
        return (workspace_mount(self.workspace, self.profile), *self.mounts)


@dataclass(frozen=True, slots=True)
class SandboxProgram:
    """The program that makes sandboxes, and the settings that every call uses.

    `by_descriptor`: it mounts directories by descriptor. `disables_userns`: it takes --disable-userns here.
    """

    path: str
    limits: ProgramLimits
    by_descriptor: bool = True
    disables_userns: bool = True


@dataclass(frozen=True, slots=True)
class Preparation:
    """What the inspection of a call's directories found: paths to hide, and the guard over protected ones."""

    private: Hidden
    guard: PathGuard | None = None


class CommandLine(Protocol):
    """Arguments that start a program in its sandbox. `descriptors` are inherited; `close` closes those that the command
    line opened itself."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    environment: Mapping[str, str]

    def close(self) -> None: ...


class SandboxCommand:
    """Bubblewrap's command line, and the descriptors that it names.

    The options are passed in a memory file (`--args`) and not as arguments: the program in the sandbox can read the
    command line of bubblewrap, and the options tell about the machine.
    """

    def __init__(
        self, program: SandboxProgram, call: ProgramCall, prepared: Preparation, leash: Sequence[str] = ()
    ) -> None:
        network = call.profile.egress
        emptied = {path: b"" for path, is_directory in prepared.private.items() if not is_directory}
        replaced = {os.path.join(WORKSPACE, name): content for name, content in call.instead.items()}
        self._over, self._new = Overlays({**replaced, **emptied}), Overlays(dict(network.files) if network else {})
        self._filter = in_memory(seccomp.program(any_mode=call.profile.ours) or b"")
        variables = {**call.environment, **(network.environment if network else {})}
        words = (
            *leash,
            *options(variables, program.limits, disable_userns=program.disables_userns),
            *("--seccomp", str(self._filter)),
            *own_paths(call.workspace),
            *mounted(call.mounted, by_descriptor=program.by_descriptor),
            *(prepared.guard.options if prepared.guard else ()),
            *self._new.options,
            *("--remount-ro", "/"),
            *("--chdir", os.path.normpath(os.path.join(WORKSPACE, call.cwd))),
            *self._over.options,
            *(word for path, is_directory in prepared.private.items() if is_directory for word in mask(path)),
        )
        self._words = in_memory(b"".join(os.fsencode(word) + b"\0" for word in words))
        started = call.argv if program.by_descriptor else (*if_unmoved(call.mounted), *call.argv)
        self.environment: Mapping[str, str] = {}
        self.argv: tuple[str, ...] = (program.path, "--args", str(self._words), "--", *started)
        self.descriptors: tuple[int, ...] = (
            *(mount.fd for mount in call.mounted),
            *self._over.descriptors,
            *self._new.descriptors,
            *(prepared.guard.descriptors if prepared.guard else ()),
            self._filter,
            self._words,
        )

    def close(self) -> None:
        for overlays in (self._over, self._new):
            overlays.close()
        os.close(self._filter)
        os.close(self._words)


def inspect_mounts(call: ProgramCall, guard: PathGuard) -> Hidden:
    """Guard the protected paths of directories that the program may write to; answers the private paths to hide.
    Raises OSError.

    Without write access to the workspace nothing is guarded, even when further mounts are writable: only MCC's own
    calls of git have such mounts, and git changes in there just what it is told to.
    """
    for mount in call.mounted if call.profile.write else ():
        if mount.write:
            guard.cover(mount.fd, mount.at)
    return hidden(call.workspace)


async def restore_protected(call: ProgramCall, guard: PathGuard) -> tuple[str, ...]:
    """Undo the program's changes to protected paths, and close the guard; answers sentences about them."""
    try:
        return await call.look(guard.undo) if guard.holds else ()
    except Exception:
        # No thread is left to run it: blocking the event loop is better than leaving the changes.
        return guard.undo()
    finally:
        guard.close()
