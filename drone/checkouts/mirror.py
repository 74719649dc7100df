"""Mirrors of git addresses on this machine: what was fetched, by a git that reaches this one host and nothing else."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drone.sandbox.bubblewrap import WORKSPACE, Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, Ended
from drone.sandbox.network import Network
from drone.sandbox.paths import Workspace
from drone.tools.display_text import cut, plain
from drone.tools.git_program import ENVIRONMENT, SETTINGS
from mcc.configuration.places import make_private_directory
from mcc.configuration.workspaces import GitAddress
from mcc.rules.patterns import Pattern

FETCH_SECONDS = 900.0
_MIRROR = "/mirror"
_CHECKOUT = "/checkout"
_CREDENTIAL = "/etc/mcc/credential"
_USER = "x-access-token"
_SPOILT = ("\r", "\n", "\0")

_BRANCH = Pattern(r"ref: refs/heads/([A-Za-z0-9][A-Za-z0-9_./+-]{0,200})\tHEAD")
_HELPER = f'!f() {{ test "$1" = get && cat {_CREDENTIAL}; }}; f'
"""Says what is in a file that only this git sees; a word of a command line, a variable or a setting shows to others."""

Open = Callable[[Sequence[str]], Network]
"""The way out to these hosts (`name:port`) alone."""


class CannotFetch(Exception):
    """The address cannot be checked out; a sentence that says what is wrong."""


@dataclass(frozen=True, slots=True)
class WithFiles:
    """A network whose program finds more files (`drone.sandbox.network.Network`)."""

    network: Network
    more: Mapping[str, bytes]

    async def prepare(self) -> None:
        await self.network.prepare()

    @property
    def environment(self) -> Mapping[str, str]:
        return self.network.environment

    @property
    def files(self) -> Mapping[str, bytes]:
        return {**self.network.files, **self.more}

    @property
    def denied(self) -> Sequence[str]:
        return self.network.denied

    async def attach(self, first: int) -> None:
        await self.network.attach(first)

    async def detach(self) -> None:
        await self.network.detach()


@dataclass(frozen=True, slots=True)
class Mirrors:
    """Those in `directory`. Nothing of a mirror ever runs: its configuration, and all that git is told, is ours."""

    sandbox: Bubblewrap
    directory: Path
    open: Open

    def place(self, address: GitAddress) -> Path:
        """Blocks. Raises OSError."""
        digest = hashlib.sha256(f"{address.endpoint}/{'/'.join(address.parts)}".encode()).hexdigest()[:32]
        place = self.directory / digest
        make_private_directory(place)
        return place

    async def fetch(self, address: GitAddress, token: str | None, mirror: Workspace) -> str | None:
        """Bring the mirror up to date; the name of the branch that the other side begins with, if it says one.

        Raises `CannotFetch`.
        """
        if token is not None and any(mark in token for mark in _SPOILT):
            raise CannotFetch(f"The token for {address.text} is of several lines; give it as it is.")
        await self.done(mirror, "init", "--quiet", "--bare", "--template=", _MIRROR)
        listed = await self._asked(address, token, mirror, "ls-remote", "--symref", address.text, "HEAD")
        refspecs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        quietly = ("--quiet", "--force", "--prune", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        await self._asked(address, token, mirror, "fetch", *quietly, "--end-of-options", address.text, *refspecs)
        first = next((line for line in listed.splitlines() if _BRANCH.fullmatch(line)), "")
        return first.removeprefix("ref: refs/heads/").partition("\t")[0] or None

    async def check_out(self, mirror: Workspace, root: Workspace, address: str, commit: str, branch: str) -> None:
        """Fill an empty directory with a repository of its own: what the mirror has, and this branch of this commit.

        Raises `CannotFetch`.
        """
        inside = {"GIT_DIR": f"{_CHECKOUT}/.git", "GIT_WORK_TREE": _CHECKOUT, "GIT_ALLOW_PROTOCOL": "file"}
        refspecs = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        fetch = ("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--end-of-options", WORKSPACE, *refspecs)
        for arguments in (
            ("init", "--quiet", "--template="),
            ("-c", "protocol.file.allow=always", *fetch),
            ("config", "remote.origin.url", address),
            ("config", "remote.origin.fetch", refspecs[0]),
            ("checkout", "--quiet", "--no-track", "-b", branch, commit),
        ):
            _checked(arguments, await self._run(mirror, arguments, inside, None, root))

    async def done(self, mirror: Workspace, *arguments: str, network: Network | None = None) -> str:
        """What git says in the mirror, which it may change. Raises `CannotFetch`."""
        protocols = ("-c", "protocol.https.allow=always") if network else ()
        given = {"GIT_DIR": _MIRROR, "GIT_ALLOW_PROTOCOL": "https" if network else ""}
        return _checked(arguments, await self._run(mirror, (*protocols, *arguments), given, network))

    async def _asked(self, address: GitAddress, token: str | None, mirror: Workspace, *arguments: str) -> str:
        network = self.open([str(address.endpoint)])
        given: Network = network
        if token:
            given = WithFiles(network, _credential(token))
        settings = ("-c", f"credential.helper={_HELPER}") if token else ()
        with_ours = ("-c", "http.followRedirects=false", "-c", "http.emptyAuth=false", *settings, *arguments)
        try:
            return await self.done(mirror, *with_ours, network=given)
        except CannotFetch as error:
            denied = f" ({', '.join(network.denied)} is not reached)" if network.denied else ""
            raise CannotFetch(f"{address.text} cannot be fetched{denied}: {error}") from error

    async def _run(
        self,
        mirror: Workspace,
        arguments: Sequence[str],
        given: Mapping[str, str],
        network: Network | None = None,
        root: Workspace | None = None,
    ) -> Ended:
        """`root`: the directory that is changed, None = the mirror."""
        settings = (word for pair in SETTINGS.items() for word in ("-c", "=".join(pair)))
        changed = mirror.again() if root is None else root
        at = _MIRROR if root is None else _CHECKOUT
        try:
            return await self.sandbox.run(
                ("git", "--no-pager", *settings, *arguments),
                mirror,
                Bounds(FETCH_SECONDS),
                profile=Profile(egress=network, ours=True),
                environment={**ENVIRONMENT, **given},
                mounts=(Mount(changed.fd, at, write=True),),
            )
        except OSError as error:
            raise CannotFetch(f"git cannot be started: {error}") from error


def _checked(arguments: Sequence[str], ended: Ended) -> str:
    """Raises `CannotFetch`."""
    if ended.status or ended.timed_out:
        name = next((one for one in arguments if not one.startswith("-") and "=" not in one), "")
        why = "it took too long" if ended.timed_out else _said(ended.stderr.head)
        raise CannotFetch(f"git {name} failed: {why or f'exit status {ended.status}'}")
    return ended.stdout.head.decode("utf-8", "replace")


def _credential(token: str) -> Mapping[str, bytes]:
    return {_CREDENTIAL: f"username={_USER}\npassword={token}\n".encode()}


def _said(stderr: bytes) -> str:
    lines = plain(stderr.decode("utf-8", "replace")).splitlines()
    return cut(" ".join(line.strip() for line in lines if line.strip()), 500)
