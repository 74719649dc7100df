"""Git addresses that orders may name as their workspace, by the table [[workspaces.git]]."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mcc.addresses import AddressRefused, Endpoint, url_of
from mcc.configuration.network import VariableName
from mcc.contracts.shape import Closed

ANY = "*"
_PART = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~+")
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class GitAddress:
    """`https://host/path` in canonical spelling. `parts` are the path's segments, the last one without `.git`."""

    endpoint: Endpoint
    parts: tuple[str, ...]
    text: str

    def fits(self, pattern: "GitAddress") -> bool:
        """Whether the address matches the pattern, in which `*` stands for any one segment."""
        if self.endpoint != pattern.endpoint or len(self.parts) != len(pattern.parts):
            return False
        return all(wanted in (ANY, part) for part, wanted in zip(self.parts, pattern.parts, strict=True))

    @property
    def name(self) -> str:
        """The last segment, which names the checkout."""
        return self.parts[-1]


def git_address(text: str, *, pattern: bool = False) -> GitAddress:
    """Parse a git address; with `pattern`, a segment may be `*`. Raises `AddressRefused`."""
    if len(text) > _MOST or not text.isascii():
        raise AddressRefused("A git address is plain ASCII, and shorter than this.")
    if not text.startswith("https://"):
        raise AddressRefused("Only https:// is a git address here: no ssh, git, file, http or ext.")
    url = url_of(text)
    if "?" in text or "#" in text or "%" in text:
        raise AddressRefused("A git address has no query, no fragment and no percent signs.")
    parts = tuple(part for part in url.target.split("/")[1:])
    parts = parts[:-1] if parts and not parts[-1] else parts
    if not parts or not all(_is_part(part, pattern) for part in parts):
        raise AddressRefused("The path of a git address has parts of letters, digits and . _ - ~ + only.")
    *above, last = parts
    bare = last.removesuffix(".git") or last
    return GitAddress(url.endpoint, (*above, bare), f"https://{url.authority}/{'/'.join(parts)}")


def _is_part(part: str, pattern: bool) -> bool:
    if part == ANY:
        return pattern
    return bool(part) and part not in (".", "..") and part[0] != "-" and _PART.issuperset(part)


def _pattern(text: str) -> str:
    try:
        return git_address(text, pattern=True).text
    except AddressRefused as error:
        raise ValueError(f"{error} Write https://host/team/* or https://host/team/name") from error


class GitRemote(Closed):
    """`address` is an https address in which `*` stands for one path segment. `token_env` names the drone's variable
    with the access token for it."""

    address: Annotated[str, AfterValidator(_pattern)]
    token_env: VariableName | None = None

    @property
    def pattern(self) -> GitAddress:
        return git_address(self.address, pattern=True)


class WorkspaceSettings(Closed):
    """The table [workspaces]."""

    git: Annotated[tuple[GitRemote, ...], Field(max_length=200)] = ()

    def remote(self, address: GitAddress) -> GitRemote | None:
        """The first entry that allows this address, None when none does."""
        return next((one for one in self.git if address.fits(one.pattern)), None)


KEPT_CHECKOUTS = Path("checkouts", "kept.json")
"""The file of a data directory that lists old checkouts which drones did not delete, because they hold unsaved work."""


class KeptCheckout(Closed):
    """A checkout that was not deleted, and `why`. `place` is its directory, `bytes_` its size on disk."""

    place: str
    address: str
    why: str
    bytes_: int


class KeptCheckouts(Closed):
    kept: tuple[KeptCheckout, ...] = ()


def is_git_address(workspace: str) -> bool:
    """Whether an order's workspace is meant as a git address, valid or not, rather than a directory."""
    return "://" in workspace or workspace.startswith("git@")
