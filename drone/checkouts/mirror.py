"""Mirrors of git addresses on this machine, fetched by a sandboxed git that can reach only the address's host."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drone.sandbox.bubblewrap import WORKSPACE, Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.workspace_writer import delete_tree
from drone.sandbox.profile import Network
from drone.tools.frame.display_text import cut, strip_controls
from drone.tools.git.program import ENVIRONMENT, SETTINGS
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
_FORBIDDEN = ("\r", "\n", "\0")

_BRANCH = Pattern(r"ref: refs/heads/([A-Za-z0-9][A-Za-z0-9_./+-]{0,200})\tHEAD")
_HELPER = f'!f() {{ test "$1" = get && cat {_CREDENTIAL}; }}; f'
"""A git credential helper that prints a file which only this git sees. Arguments, environment variables and settings
would be visible to other processes."""

OpenNetwork = Callable[[Sequence[str]], Network]
"""Answers a network that reaches only these hosts (`name:port`)."""


LIST_SECONDS, MOST_FILES, MOST_BYTES = 15.0, 500_000, 20_000_000_000
"""Bounds of a checkout: the time to list its files, their number and total size. A small pack can expand to a gigantic
tree."""

_TEMPORARY = (
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
    *("send failure", "gnutls_handshake", "gnutls recv error", "gnutls send error"),
    *("tls connection was non-properly", "http/2 stream", "transfer closed"),
    *("error: 429", "error: 500", "error: 502", "error: 503", "error: 504", "response 502", "response 503"),
    *("response 504", ".lock': file exists", "no space left", "resource temporarily unavailable"),
)
"""Texts in git's messages for failures of the network, the server or the disk that may be temporary."""

_TOO_LARGE = ("file too large", "died of signal 25", "file size limit")
"""Texts in git's messages when it exceeds the limit on the size of a file."""

_BROKEN = ("corrupt", "bad object", "did not send all necessary objects", "unable to read", "not a git repository")
"""Texts in git's messages for a damaged mirror, which is then made anew."""


_PRIVATE = (
    "; private addresses are reached where [sandbox.egress] allow_private, or a table [forges.NAME], names their host"
)
_ADVICE = (
    ("authentication failed", "; is the token right, has it not ended, and may it be used there?"),
    ("could not read username", "; it wants a token: token_env of [[workspaces.git]] names its variable"),
    ("error: 403", "; the token may not do that: give it the right to read, and for deliveries to write, contents"),
    ("not found", "; is the name right, and may the token of [[workspaces.git]] see it?"),
    ("certificate", "; SSL_CERT_FILE of the drone names the file of further authorities to trust"),
)
"""By texts in git's messages: what whoever runs the drone can do about it."""


class CannotFetch(Exception):
    """The address cannot be checked out; the message is a sentence that says why."""


class NotNow(CannotFetch):
    """The address cannot be checked out now; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class WithFiles:
    """A network of which nothing but the proxy is used, with additional files in the sandbox
    (`drone.sandbox.profile.Network`)."""

    network: Network
    more: Mapping[str, bytes]

    async def prepare(self) -> None:
        await self.network.prepare()

    @property
    def environment(self) -> Mapping[str, str]:
        # A server on this machine is not on the sandbox's own loopback, where nothing listens but the proxy.
        return {**self.network.environment, "no_proxy": "", "NO_PROXY": ""}

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
    """The mirrors in `directory`. No program from a mirror ever runs: MCC alone decides their configuration and git's
    arguments. `open` gives a network; `most_files` is the largest number of files that a checkout may have."""

    sandbox: Bubblewrap
    directory: Path
    open: OpenNetwork
    most_files: int = MOST_FILES

    def name(self, address: GitAddress) -> str:
        """The name of the mirror's directory: a digest of the address."""
        return hashlib.sha256(f"{address.endpoint}/{'/'.join(address.parts)}".encode()).hexdigest()[:32]

    def hold(self, name: str) -> int:
        """Lock a mirror among the processes of this machine, and remove the remains of a killed git from it; answers
        the lock's descriptor. Blocks for a moment. Raises `NotNow`, OSError."""
        make_private_directory(self.directory)
        fd = os.open(self.directory / f"{name}{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_remains(self.directory / name)
            # The time of the lock file stands for the last fetch; a sweep reads it.
            os.utime(fd)
        except BlockingIOError:
            os.close(fd)
            raise NotNow("Another drone of this machine is fetching it.") from None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def opened(self, name: str) -> Workspace:
        """The mirror's directory, made if it does not exist. Blocks. Raises OSError, `PathError`."""
        make_private_directory(self.directory / name)
        return Workspace(self.directory / name)

    def drop(self, name: str) -> None:
        """Delete a mirror; the caller must hold its lock. Blocks. Raises OSError."""
        delete_tree(self.directory / name)

    async def fetch(self, address: GitAddress, token: str | None, mirror: Workspace) -> str | None:
        """Update the mirror; answers the remote's default branch (its HEAD), None where it names none.

        Raises `CannotFetch`.
        """
        if token is not None and any(mark in token for mark in _FORBIDDEN):
            raise CannotFetch(f"The token for {address.text} has several lines; give it as it is.")
        await self.git(mirror, "init", "--quiet", "--bare", "--template=", _MIRROR)
        listed = await self.remote_git(address, token, mirror, "ls-remote", "--symref", address.text, "HEAD")
        refspecs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        quietly = ("--quiet", "--force", "--prune", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        # unpackLimit=1 stores everything in one pack, so that the limit on the size of a file bounds the whole fetch.
        await self.remote_git(
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
        """Make a repository in the empty directory `root`: everything that the mirror has, and a new `branch` at
        `commit` checked out. `address` becomes its remote `origin`. Raises `CannotFetch`."""
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
        """Whether the remote had all these commits at the last fetch."""
        try:
            return (await self.git(mirror, "rev-list", "--count", *tips, "--not", "--all")).strip() == "0"
        except CannotFetch:
            return False

    async def _bounded(self, mirror: Workspace, commit: str) -> None:
        """Raises `CannotFetch` for a commit with more files or bytes than a checkout may have."""
        arguments = ("ls-tree", "-r", "--format=%(objectsize)", "--end-of-options", commit)
        bounds = Bounds(LIST_SECONDS, 12 * self.most_files, 0)
        listed = await self._run(mirror, arguments, {"GIT_DIR": _MIRROR}, bounds=bounds)
        sizes = listed.stdout.head.split()
        total = sum(int(size) for size in sizes if size.isdigit())
        if listed.stdout.left_out or len(sizes) > self.most_files or total > MOST_BYTES:
            raise CannotFetch(
                f"What it holds is too much for a checkout: at most {self.most_files:,} files and {MOST_BYTES:,} bytes."
            )
        _checked(arguments, listed)

    async def git(
        self,
        mirror: Workspace,
        *arguments: str,
        network: Network | None = None,
        beside: Workspace | None = None,
        bounds: Bounds = _BOUNDS,
    ) -> str:
        """Run git in the mirror, which it may change; answers its output. `beside`: a checkout, whose objects this git
        sees as well, and whose configuration it does not. Raises `CannotFetch`."""
        protocols = ("-c", "protocol.https.allow=always") if network else ()
        variables = {"GIT_DIR": _MIRROR, "GIT_ALLOW_PROTOCOL": "https" if network else ""}
        if beside is not None:
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f"{_CHECKOUT}/.git/objects"
        ended = await self._run(mirror, (*protocols, *arguments), variables, network, bounds=bounds, beside=beside)
        return _checked(arguments, ended)

    async def remote_git(
        self,
        address: GitAddress,
        token: str | None,
        mirror: Workspace,
        *arguments: str,
        beside: Workspace | None = None,
        bounds: Bounds = _BOUNDS,
    ) -> str:
        """Run git in the mirror with a network that reaches the address, and with the token. Raises `CannotFetch`."""
        network = self.open([str(address.endpoint)])
        files = {_CREDENTIAL: f"username={_USER}\npassword={token}\n".encode()} if token else {}
        reachable = WithFiles(network, files)
        helper = ("-c", f"credential.helper={_HELPER}") if token else ()
        # A redirect would carry the token to a host that nobody has allowed.
        settings = ("-c", "http.followRedirects=false", "-c", "http.emptyAuth=false", *helper)
        try:
            return await self.git(mirror, *settings, *arguments, network=reachable, beside=beside, bounds=bounds)
        except CannotFetch as error:
            denied = f" ({', '.join(network.denied)} is not reached)" if network.denied else ""
            kind = NotNow if isinstance(error, NotNow) and not denied else CannotFetch
            done = "pushed to" if beside is not None else "fetched"
            advice = (
                _PRIVATE if denied else next((to_do for words, to_do in _ADVICE if words in str(error).lower()), "")
            )
            raise kind(f"{address.text} cannot be {done}{denied}: {error}{advice}") from error

    async def _run(
        self,
        mirror: Workspace,
        arguments: Sequence[str],
        given: Mapping[str, str],
        network: Network | None = None,
        root: Workspace | None = None,
        bounds: Bounds = _BOUNDS,
        beside: Workspace | None = None,
    ) -> EndedProgram:
        """Run git in the sandbox. `root`: the directory that it may change, None = the mirror. `beside`: a checkout
        that it reads. Raises `NotNow`."""
        settings = (word for pair in SETTINGS.items() for word in ("-c", "=".join(pair)))
        changed = mirror.again() if root is None else root
        at = _MIRROR if root is None else _CHECKOUT
        read = () if beside is None else (Mount(beside.fd, _CHECKOUT),)
        try:
            return await self.sandbox.run(
                ("git", "--no-pager", *settings, *arguments),
                mirror,
                bounds,
                profile=Profile(egress=network, ours=True),
                environment={**ENVIRONMENT, **given},
                mounts=(Mount(changed.fd, at, write=True), *read),
            )
        except OSError as error:
            raise NotNow(f"git cannot be started: {error}") from error


def _remove_remains(mirror: Path) -> None:
    """Remove lock files and half received objects of a killed git. Call it only while no git runs in the mirror. Raises
    OSError."""
    for path in (*mirror.glob("*.lock"), *mirror.glob("refs/**/*.lock"), *mirror.glob("objects/pack/tmp_*")):
        path.unlink(missing_ok=True)
    for path in mirror.glob("objects/tmp_objdir-*"):
        delete_tree(path)


def is_broken(problem: CannotFetch) -> bool:
    """Whether the problem is a damaged mirror."""
    return any(words in str(problem).lower() for words in _BROKEN)


def _checked(arguments: Sequence[str], ended: EndedProgram) -> str:
    """The output of a git that succeeded. Raises `CannotFetch` for one that failed, `NotNow` where the failure may be
    temporary."""
    if not ended.status and not ended.timed_out:
        return ended.stdout.head.decode("utf-8", "replace")
    name = next((argument for argument in arguments if not argument.startswith("-") and "=" not in argument), "")
    if ended.timed_out:
        raise NotNow(f"git {name} failed: it took too long")
    lines = strip_controls(ended.stderr.head.decode("utf-8", "replace")).splitlines()
    message = cut(" ".join(line.strip() for line in lines if line.strip()), 500)
    if any(words in message.lower() for words in _TOO_LARGE):
        raise CannotFetch(f"git {name} failed: it has a file larger than file_mb of [sandbox] allows ({message})")
    kind = NotNow if any(words in message.lower() for words in _TEMPORARY) else CannotFetch
    raise kind(f"git {name} failed: {message or f'exit status {ended.status}'}")
