"""Who somebody is, as a provider of identities says; and why it signs somebody in not."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from mcc.configuration.oidc import OidcSettings
from mcc.contracts.callers import PERSON, SERVICE, Role
from mcc.contracts.people import NAME_CHARACTERS

SUBJECT_CHARACTERS = 255
"""How long a provider's name of a person is at most, by the specification; so is here that of a session."""

EMAIL_CHARACTERS = 320
MOST_GROUPS = 10_000

OURS = frozenset({"operator", "doctor", "retention", "mcc", "oidc", "you"})
"""Who acts here without being a person, and what the page calls its reader: at many providers people choose their
names themselves, and nobody is to pass for one of these."""

Claims = Mapping[str, object]


class SigninRefused(Exception):
    """Nobody is signed in. The message is a sentence that says why and what to do; `claim` names what was at fault: a
    claim of a token, a parameter of an answer, or `provider`. `detail`: what is for the operator alone."""

    def __init__(self, claim: str, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.claim = claim
        self.detail = detail


class ProviderAway(SigninRefused):
    """The provider was not reached, or what it answered is no answer."""

    def __init__(self, why: str) -> None:
        super().__init__("provider", "The provider of identities does not answer as it has to: try again soon.", why)


@dataclass(frozen=True, slots=True)
class Identity:
    """A person of a provider: `subject` is what `issuer` calls them for good, `sid` their session there.

    `role`: what their groups may do here; None: nothing. Name and e-mail are only shown.
    """

    issuer: str
    subject: str
    sid: str | None
    name: str
    email: str | None
    role: Role | None


def identity_of(claims: Claims, more: Claims, settings: OidcSettings) -> Identity:
    """Whom the claims of an ID token name; what they lack is taken from `more`, which userinfo said. Raises
    `SigninRefused`."""
    said = {**more, **{claim: value for claim, value in claims.items() if value is not None}}
    names = (_text(said.get(claim), NAME_CHARACTERS) for claim in ("name", "preferred_username", "email"))
    subject = identifier(claims, "sub")
    groups = groups_in(claims, settings.groups_claim)
    return Identity(
        settings.issuer,
        subject,
        identifier(claims, "sid") if "sid" in claims else None,
        next(filter(_is_free, names), subject[:NAME_CHARACTERS] if _is_free(subject) else f"{subject} (sub)"),
        _text(said.get("email"), EMAIL_CHARACTERS) or None,
        settings.role_of(groups if groups is not None else groups_in(more, settings.groups_claim) or ()),
    )


def lacks_something(claims: Claims, settings: OidcSettings) -> bool:
    """Whether userinfo has to be asked for more than an ID token says."""
    needs_groups = any(group != "*" for group in settings.roles)
    return not claims.get("name") or (needs_groups and groups_in(claims, settings.groups_claim) is None)


def groups_in(claims: Claims, path: str) -> tuple[str, ...] | None:
    """The groups at this path; None where the claims say nothing of them. What is no text is no group."""
    value = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return None
    several = value if isinstance(value, list) else [value]
    return tuple(group for group in several[:MOST_GROUPS] if isinstance(group, str))


def identifier(claims: Claims, claim: str) -> str:
    """A claim that identifies: short, and in characters that everybody sees. Raises `SigninRefused`."""
    value = claims.get(claim)
    fits = isinstance(value, str) and 0 < len(value) <= SUBJECT_CHARACTERS and value.isascii() and value.isprintable()
    if not isinstance(value, str) or not fits:
        raise SigninRefused(
            claim, f"What the provider says in {claim!r} identifies nobody: at most 255 printable characters do."
        )
    return value


def _is_free(name: str) -> bool:
    """Whether somebody may be called so: it says something, and is not what a principal is called."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return bool(plain) and plain not in OURS and not plain.startswith((PERSON, SERVICE))


def _text(value: object, most: int) -> str:
    return value.strip()[:most] if isinstance(value, str) else ""
