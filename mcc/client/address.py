"""This room is for finding a service: as told, by the environment, or by the family of this machine."""

import json
from dataclasses import dataclass
from pathlib import Path

from mcc.client.errors import NoToken, Unreachable


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path, `token` the operator's."""

    url: str
    token: str


def find(url: str | None, token: str | None) -> Address:
    """What is not given comes from `MCC_URL` and `MCC_TOKEN[_FILE]`, else from family.json and the data dir.

    Raises `Unreachable` when no service is known, `NoToken`.
    """
    if url is not None and token is not None:
        return Address(url.rstrip("/"), token)
    import os

    from mcc.settings import BadSettings, load

    try:
        settings = load()
    except BadSettings as error:
        raise Unreachable(str(error)) from error
    url = url or os.environ.get("MCC_URL") or _family(settings.family_file)
    if token is None and settings.token is not None:
        token = settings.token.get_secret_value()
    return Address(url.rstrip("/"), token or _kept(settings.token_file or settings.data_dir / "token"))


def _family(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["url"])
    except (OSError, ValueError, KeyError) as error:
        raise Unreachable(
            "No control service is known here: start one with `mcc up`, or name one with MCC_URL or --url."
        ) from error


def _kept(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"No token: set MCC_TOKEN or MCC_TOKEN_FILE ({file} cannot be read).") from error
