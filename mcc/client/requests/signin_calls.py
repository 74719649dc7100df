"""The calls about sign-ins, for both clients."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.callers import Me, Signin, SigninLink
    from mcc.contracts.login import DeviceLogin, DeviceToken


def me() -> "Call[Me]":
    from mcc.contracts.callers import Me

    return Call("GET", "/me", Me.model_validate)


def link() -> "Call[SigninLink]":
    from mcc.contracts.callers import SigninLink

    # Repeated where its answer was lost: a link that nobody has is of no harm, and ends by itself.
    return Call("POST", "/signin/links", SigninLink.model_validate, body=b"{}")


def signins() -> "Call[Listing[Signin]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.callers import Signin

    return Call("GET", "/me/signins", Listing[Signin].model_validate)


def end(signin_id: str) -> "Call[None]":
    return Call("DELETE", f"/me/signins/{quote(signin_id, safe='')}", lambda _: None, repeatable=False)


def begin_login(client: str) -> "Call[DeviceLogin]":
    from mcc.contracts.login import DeviceLogin
    from mcc.contracts.shape import finite_json

    return Call("POST", "/login/device", DeviceLogin.model_validate, body=finite_json({"client": client}))


def redeem_login(device_code: str) -> "Call[DeviceToken]":
    from mcc.contracts.login import DeviceToken
    from mcc.contracts.shape import finite_json

    # Not repeated: who asks again at once is told to slow down.
    body = finite_json({"device_code": device_code})
    return Call("POST", "/login/token", DeviceToken.model_validate, body=body, repeatable=False)
