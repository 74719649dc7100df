"""The table [[workspaces.git]]: the git addresses that an order may name as its workspace."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mcc.addresses import Endpoint, Refused, url_of
from mcc.configuration.egress import VariableName
from mcc.contracts.shape import Closed

ANY = "*"
_PART = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~+")
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class GitAddress:
    """`https://host/path` in its one spelling; `parts` of the path, the last one without `.git`."""

    endpoint: Endpoint
    parts: tuple[str, ...]
    text: str

    def fits(self, pattern: "GitAddress") -> bool:
        """Whether it is what the pattern names, in which `*` is any one part."""
        if self.endpoint != pattern.endpoint or len(self.parts) != len(pattern.parts):
            return False
        return all(wanted in (ANY, part) for part, wanted in zip(self.parts, pattern.parts, strict=True))

    @property
    def name(self) -> str:
        """The last part: what a checkout is called."""
        return self.parts[-1]


def git_address(text: str, *, pattern: bool = False) -> GitAddress:
    """Raises `Refused` with a sentence. `pattern`: a part may be `*`."""
    if len(text) > _MOST or not text.isascii():
        raise Refused("A git address is plain ASCII, and not as long as this.")
    if not text.startswith("https://"):
        raise Refused("Only https:// is a git address here: no ssh, git, file, http or ext.")
    url = url_of(text)
    if "?" in text or "#" in text or "%" in text:
        raise Refused("A git address has no query, no fragment and no percent signs.")
    parts = tuple(part for part in url.target.split("/")[1:])
    parts = parts[:-1] if parts and not parts[-1] else parts
    if not parts or not all(_is_part(part, pattern) for part in parts):
        raise Refused("The path of a git address has parts of letters, digits and . _ - ~ + only.")
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
    except Refused as error:
        raise ValueError(f"{error} Write https://host/team/* or https://host/team/name") from error


class GitRemote(Closed):
    """`address`: https, in its path `*` is one part. `token_env` names the drone's variable with the token for it."""

    address: Annotated[str, AfterValidator(_pattern)]
    token_env: VariableName | None = None

    @property
    def pattern(self) -> GitAddress:
        return git_address(self.address, pattern=True)


class Workspaces(Closed):
    """The table [workspaces]."""

    git: Annotated[tuple[GitRemote, ...], Field(max_length=200)] = ()

    def remote(self, address: GitAddress) -> GitRemote | None:
        """The first that allows this address."""
        return next((one for one in self.git if address.fits(one.pattern)), None)


KEPT_CHECKOUTS = Path("checkouts", "kept.json")
"""In a data directory: those that drones would have deleted, did they not hold what nobody else has."""


class KeptCheckout(Closed):
    """`place` is its directory; `why` it was not deleted; `bytes_` that it takes."""

    place: str
    address: str
    why: str
    bytes_: int


class KeptCheckouts(Closed):
    kept: tuple[KeptCheckout, ...] = ()


def is_git_address(workspace: str) -> bool:
    """Whether an order's workspace is meant as an address, and not as a directory."""
    return "://" in workspace or workspace.startswith("git@")
