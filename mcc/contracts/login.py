"""Signing a command line in: what it asks for, what a person is asked at the page, and the token at the end, in words
of RFC 8628."""

from typing import Annotated, Literal

from pydantic import Field

from mcc.contracts.people import NAME_CHARACTERS
from mcc.contracts.shape import Closed, Moment, Text

USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Consonants alone, as RFC 8628 advises: no code is a word, and no letter is taken for a digit."""

USER_CODE_CHARACTERS = 8

LoginError = Literal["authorization_pending", "slow_down", "access_denied", "expired_token"]
DeviceState = Literal["pending", "approved", "denied"]


class NewDeviceLogin(Closed):
    """A command line asks to be let in. `client`: what it calls itself, which the person at the page reads."""

    client: Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)]


class DeviceLogin(Closed):
    """What the command line does next: it shows `verification_uri` and `user_code`, and asks with `device_code` every
    `interval` seconds, for `expires_in` seconds."""

    device_code: str
    user_code: str
    verification_uri: Text
    expires_in: int
    interval: int


class NewDeviceToken(Closed):
    """Asks whether the command line was let in."""

    device_code: Annotated[str, Field(min_length=1, max_length=200)]


class DeviceToken(Closed):
    """A personal token of who let the command line in, told this once. `scope`: its scopes, with blanks between them;
    `expires_in`: seconds. `id` names it in the list of tokens."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"
    expires_in: int
    scope: str
    id: str
    principal: str
    expires_at: Moment


class DeviceDecision(Closed):
    """The code that a command line shows, typed at the page. `decision` null: who asks is looked at alone."""

    user_code: Annotated[str, Field(min_length=1, max_length=40)]
    decision: Literal["approve", "deny"] | None = None


class DeviceQuestion(Closed):
    """Which command line shows the code: what it calls itself, which nobody has checked, and the address that it calls
    from. `state`: what was decided, with this request too."""

    client: Text
    address: str
    state: DeviceState = "pending"
    expires_at: Moment


def user_code_letters(typed: str) -> str | None:
    """The letters of a code, however it was typed: without dashes and blanks, in capitals. None: it cannot be one."""
    letters = "".join(typed.split()).replace("-", "").upper()
    is_code = len(letters) == USER_CODE_CHARACTERS and not set(letters) - set(USER_CODE_LETTERS)
    return letters if is_code else None
