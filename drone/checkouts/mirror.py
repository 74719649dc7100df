"""Mirrors of git addresses on this machine: what was fetched, by a git that reaches this one host and nothing else."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drone.sandbox.bubblewrap import WORKSPACE, Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, Ended
from drone.sandbox.network import Network
from drone.sandbox.paths import Workspace
from drone.sandbox.removing import remove
from drone.tools.display_text import cut, strip_controls
from drone.tools.git_program import ENVIRONMENT, SETTINGS
from mcc.configuration.places import make_private_directory
from mcc.configuration.workspaces import GitAddress
from mcc.rules.patterns import Pattern

FETCH_SECONDS = 900.0
_BOUNDS = Bounds(FETCH_SECONDS)
LOCK = ".lock"
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


LIST_SECONDS, MOST_FILES, MOST_BYTES = 15.0, 500_000, 20_000_000_000
"""Of what is checked out: a small pack can stand for a tree without end."""

_FOR_NOW = (
    *("could not resolve", "couldn't resolve", "failed to connect", "couldn't connect", "could not connect"),
    *("connection refused", "connection reset", "timed out", "timeout", "operation too slow", "empty reply"),
    *(
        "early eof",
        "unexpected disconnect",
        "hung up",
        "unexpected eof",
        "ssl_read",
        "ssl_error_syscall",
        "recv failure",
    ),
    *("send failure", "gnutls_handshake", "tls connection was non-properly", "http/2 stream", "transfer closed"),
    *("error: 429", "error: 500", "error: 502", "error: 503", "error: 504", "response 502", "response 503"),
    *("response 504", ".lock': file exists", "no space left", "resource temporarily unavailable"),
)
"""What git says of a network, a server or a disk that may be well again later."""

_TOO_LARGE = ("file too large", "died of signal 25", "file size limit")

_BROKEN = ("corrupt", "bad object", "did not send all necessary objects", "unable to read", "not a git repository")
"""What git says of a mirror that is damaged: it is made anew."""


class CannotFetch(Exception):
    """The address cannot be checked out; a sentence that says what is wrong."""


class NotNow(CannotFetch):
    """It may work when it is tried again."""


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
    most_files: int = MOST_FILES

    def name(self, address: GitAddress) -> str:
        return hashlib.sha256(f"{address.endpoint}/{'/'.join(address.parts)}".encode()).hexdigest()[:32]

    def hold(self, name: str) -> int:
        """The lock on a mirror among the processes of this machine, as a descriptor; what a git that was killed left in
        the mirror is gone. Blocks for a moment. Raises `NotNow`, OSError."""
        make_private_directory(self.directory)
        fd = os.open(self.directory / f"{name}{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _take_up(self.directory / name)
            os.utime(fd)
        except BlockingIOError:
            os.close(fd)
            raise NotNow("Another drone of this machine is fetching it.") from None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def opened(self, name: str) -> Workspace:
        """The mirror, made if it is not there. Blocks. Raises OSError, `PathError`."""
        make_private_directory(self.directory / name)
        return Workspace(self.directory / name)

    def drop(self, name: str) -> None:
        """Delete a mirror that is held. Blocks. Raises OSError."""
        remove(self.directory / name)

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
        # In one pack, so that the limit on the size of a file holds for all that comes.
        await self._asked(
            address,
            token,
            mirror,
            "-c",
            "fetch.unpackLimit=1",
            "fetch",
            *quietly,
            "--end-of-options",
            address.text,
            *refspecs,
        )
        first = next((line for line in listed.splitlines() if _BRANCH.fullmatch(line)), "")
        return first.removeprefix("ref: refs/heads/").partition("\t")[0] or None

    async def check_out(self, mirror: Workspace, root: Workspace, address: str, commit: str, branch: str) -> None:
        """Fill an empty directory with a repository of its own: what the mirror has, and this branch of this commit.

        Raises `CannotFetch`.
        """
        await self._bounded(mirror, commit)
        refspecs = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        fetch = ("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--end-of-options", WORKSPACE, *refspecs)
        inside = {"GIT_DIR": f"{_CHECKOUT}/.git", "GIT_WORK_TREE": _CHECKOUT, "GIT_ALLOW_PROTOCOL": "file"}
        for arguments in (
            ("init", "--quiet", "--template="),
            ("-c", "protocol.file.allow=always", *fetch),
            ("config", "remote.origin.url", address),
            ("config", "remote.origin.fetch", refspecs[0]),
            ("checkout", "--quiet", "--no-track", "-b", branch, commit),
        ):
            _checked(arguments, await self._run(mirror, arguments, inside, root=root))

    async def has_all(self, mirror: Workspace, tips: Sequence[str]) -> bool:
        """Whether these commits are in what the other side had when it was last fetched."""
        try:
            return (await self.done(mirror, "rev-list", "--count", *tips, "--not", "--all")).strip() == "0"
        except CannotFetch:
            return False

    async def _bounded(self, mirror: Workspace, commit: str) -> None:
        """Raises `CannotFetch` for a commit with more than a checkout may have."""
        asked = ("ls-tree", "-r", "--format=%(objectsize)", "--end-of-options", commit)
        bounds = Bounds(LIST_SECONDS, 12 * self.most_files, 0)
        listed = await self._run(mirror, asked, {"GIT_DIR": _MIRROR}, bounds=bounds)
        sizes = listed.stdout.head.split()
        total = sum(int(size) for size in sizes if size.isdigit())
        if listed.stdout.left_out or len(sizes) > self.most_files or total > MOST_BYTES:
            raise CannotFetch(
                f"What it holds is too much for a checkout: at most {self.most_files:,} files and {MOST_BYTES:,} bytes."
            )
        _checked(asked, listed)

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
            kind = NotNow if isinstance(error, NotNow) and not denied else CannotFetch
            raise kind(f"{address.text} cannot be fetched{denied}: {error}") from error

    async def _run(
        self,
        mirror: Workspace,
        arguments: Sequence[str],
        given: Mapping[str, str],
        network: Network | None = None,
        root: Workspace | None = None,
        bounds: Bounds = _BOUNDS,
    ) -> Ended:
        """`root`: the directory that is changed, None = the mirror."""
        settings = (word for pair in SETTINGS.items() for word in ("-c", "=".join(pair)))
        changed = mirror.again() if root is None else root
        at = _MIRROR if root is None else _CHECKOUT
        try:
            return await self.sandbox.run(
                ("git", "--no-pager", *settings, *arguments),
                mirror,
                bounds,
                profile=Profile(egress=network, ours=True),
                environment={**ENVIRONMENT, **given},
                mounts=(Mount(changed.fd, at, write=True),),
            )
        except OSError as error:
            raise NotNow(f"git cannot be started: {error}") from error


def _take_up(mirror: Path) -> None:
    """No git is at work in it: what one that was killed locked or half received is gone. Raises OSError."""
    for path in (*mirror.glob("*.lock"), *mirror.glob("refs/**/*.lock"), *mirror.glob("objects/pack/tmp_*")):
        path.unlink(missing_ok=True)
    for path in mirror.glob("objects/tmp_objdir-*"):
        remove(path)


def is_broken(problem: CannotFetch) -> bool:
    """Whether it is the mirror that is at fault."""
    return any(words in str(problem).lower() for words in _BROKEN)


def _checked(arguments: Sequence[str], ended: Ended) -> str:
    """Raises `CannotFetch`."""
    if not ended.status and not ended.timed_out:
        return ended.stdout.head.decode("utf-8", "replace")
    name = next((one for one in arguments if not one.startswith("-") and "=" not in one), "")
    if ended.timed_out:
        raise NotNow(f"git {name} failed: it took too long")
    said = _said(ended.stderr.head)
    if any(words in said.lower() for words in _TOO_LARGE):
        raise CannotFetch(f"git {name} failed: it has a file larger than file_mb of [sandbox] allows ({said})")
    kind = NotNow if any(words in said.lower() for words in _FOR_NOW) else CannotFetch
    raise kind(f"git {name} failed: {said or f'exit status {ended.status}'}")


def _credential(token: str) -> Mapping[str, bytes]:
    return {_CREDENTIAL: f"username={_USER}\npassword={token}\n".encode()}


def _said(stderr: bytes) -> str:
    lines = strip_controls(stderr.decode("utf-8", "replace")).splitlines()
    return cut(" ".join(line.strip() for line in lines if line.strip()), 500)
