"""Forges that the operator names in mcc.toml ([forges.NAME]): where branches are pushed to and requests are opened."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from mcc.addresses import AddressRefused, Endpoint, is_loopback, url_of
from mcc.configuration.network import VariableName
from mcc.configuration.workspaces import GitAddress
from mcc.contracts.shape import Closed
from mcc.rules.patterns import matches_glob

ForgeKind: TypeAlias = Literal["github", "gitlab", "gitea"]

BRANCH_START = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$"

_PUBLIC: Mapping[ForgeKind, str] = {"github": "https://github.com", "gitlab": "https://gitlab.com"}
_GITHUB_API = "https://api.github.com"
_API: Mapping[ForgeKind, str] = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
"""Where a forge of this kind has its API, below its address."""


def https_address(text: str, *, loopback: bool = False) -> str:
    """The address of an API that gets a token, without a slash at its end. Raises ValueError."""
    try:
        url = url_of(text)
    except AddressRefused as error:
        raise ValueError(str(error).rstrip(".")) from error
    if url.scheme != "https" and not (loopback and is_loopback(url.endpoint.host)):
        raise ValueError("begins with https://, as the token is sent there")
    if "?" in text or "#" in text:
        raise ValueError("has neither a query nor a fragment")
    return str(url).rstrip("/")


BranchGlob = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ForgeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,30}$")]


class Forge(Closed):
    """A table [forges.NAME]. `kind` gitea: Forgejo as well. `address`: where its repositories are; None = the public
    forge of this kind. `api`: None = where this kind has it.

    `token_env` names the variable with the access token, in the environment of the drone, and of the service where
    triggers reply here. `prefix`: what each branch
    that is pushed begins with. `protected`: globs of branches that nothing is pushed to, besides the default branch.
    `draft`: whether requests are opened as drafts. `retry_seconds`: how long a forge that is busy or broken is asked
    again before the order waits for it.
    """

    kind: ForgeKind
    address: Annotated[str, AfterValidator(https_address)] | None = None
    api: Annotated[str, AfterValidator(partial(https_address, loopback=True))] | None = None
    token_env: VariableName
    prefix: Annotated[str, StringConstraints(pattern=BRANCH_START)] = "mcc/"
    protected: Annotated[tuple[BranchGlob, ...], Field(max_length=100)] = ("main", "release/*")
    draft: bool = False
    retry_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 60.0

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Forge":
        if self.address is None and self.kind not in _PUBLIC:
            raise ValueError(f'a forge of kind {self.kind} has an address = "https://git.example.org"')
        return self

    @property
    def home(self) -> str:
        """Its address, without a slash at the end."""
        return self.address or _PUBLIC[self.kind]

    @property
    def api_address(self) -> str:
        if self.api is not None:
            return self.api
        if self.kind == "github" and self.home == _PUBLIC["github"]:
            return _GITHUB_API
        return f"{self.home}{_API[self.kind]}"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The hosts that its table names."""
        return tuple(dict.fromkeys((url_of(self.home).endpoint, url_of(self.api_address).endpoint)))

    def project_of(self, address: GitAddress) -> str | None:
        """The project that is the repository at this git address, `team/shop`; None for one that is not here."""
        home = url_of(self.home)
        above = tuple(part for part in home.target.split("/") if part)
        if home.endpoint != address.endpoint or address.parts[: len(above)] != above:
            return None
        parts = address.parts[len(above) :]
        fits = len(parts) >= 2 if self.kind == "gitlab" else len(parts) == 2
        return "/".join(parts) if fits else None

    def why_not_pushed(self, branch: str, name: str) -> str | None:
        """Why nothing may be pushed to this branch of [forges.NAME], as a sentence; None where that may be."""
        if not branch.startswith(self.prefix):
            return (
                f"{branch} cannot be pushed: branches of MCC begin with {self.prefix} (prefix of [forges.{name}]), so "
                "name another one, or none."
            )
        if any(matches_glob(branch, glob) for glob in self.protected):
            return f"{branch} is not pushed to: it is protected by [forges.{name}], so name another one, or none."
        return None


Forges: TypeAlias = Annotated[Mapping[ForgeName, Forge], Field(max_length=50)]


def forge_of(forges: Mapping[str, Forge], address: GitAddress) -> tuple[str, Forge, str] | None:
    """The first forge that has this repository: its name, its table and the project; None where none has."""
    for name, forge in forges.items():
        if (project := forge.project_of(address)) is not None:
            return name, forge, project
    return None


def unknown_forge(forges: Mapping[str, Forge], address: GitAddress) -> str:
    """That no forge has this repository, and what to do about it, as a sentence."""
    known = ", ".join(f"[forges.{name}] is {forge.home}" for name, forge in forges.items()) or "there is no such table"
    return (
        f"{address.text} is at no forge that is known here ({known}): the operator adds [forges.NAME] with kind, "
        "address and token_env to mcc.toml."
    )
