"""Sign-ins for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from typing import TYPE_CHECKING

from mcc.client.requests import signin_calls
from mcc.client.sync_connection import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcc.contracts.callers import Me, Signin, SigninLink
    from mcc.contracts.login import DeviceLogin, DeviceToken


class Signins:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def me(self) -> "Me":
        """Who this client is, by which door, with which rights."""
        return self._connection.send(signin_calls.me())

    def link(self) -> "SigninLink":
        """A link that signs a browser in as the operator, once and within ten minutes. Raises `Refused` where this
        client has another token than the operator's."""
        return self._connection.send(signin_calls.link())

    def list(self) -> "Sequence[Signin]":
        """The browsers that are signed in, the newest first."""
        return (self._connection.send(signin_calls.signins())).items

    def end(self, signin_id: str) -> None:
        """Sign a browser out: its cookie counts for nothing any more. Raises `NotFound`."""
        self._connection.send(signin_calls.end(signin_id))

    def begin_login(self, client: str) -> "DeviceLogin":
        """Ask to be let in as `client`, as `mcc login` does: show `user_code` and `verification_uri` to a person, who
        is signed in there, and ask with `redeem_login` every `interval` seconds. It needs no token (`token=""`)."""
        return self._connection.send(signin_calls.begin_login(client))

    def redeem_login(self, device_code: str) -> "DeviceToken":
        """The token, once the person has decided. Raises `Invalid` before, and where there will be none: the `error` of
        its `problem` is authorization_pending, slow_down, access_denied or expired_token."""
        return self._connection.send(signin_calls.redeem_login(device_code))
