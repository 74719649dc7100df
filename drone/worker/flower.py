"""Flower of this application: it listens on loopback, and elsewhere only behind a login."""

import sys
from ipaddress import ip_address
from typing import Protocol

from celery.loaders.app import AppLoader

USAGE = 2
LOOPBACK = "127.0.0.1"


class Options(Protocol):
    """The part of Flower's options that decides who can reach it, however they were given."""

    address: str
    auth: str
    basic_auth: list[str] | None


class OpenToAll(Exception):
    """Flower would show all workers and tasks to whoever asks; the message says what to do."""


class Loader(AppLoader):  # type: ignore[misc]
    """Flower calls this between reading its options and listening, and a worker when it starts."""

    def import_default_modules(self) -> None:
        super().import_default_modules()
        if "flower.options" in sys.modules:
            try:
                keep_to_loopback(sys.modules["flower.options"].options)
            except OpenToAll as problem:
                print(problem, file=sys.stderr)
                raise SystemExit(USAGE) from problem


def keep_to_loopback(options: Options) -> None:
    """Name the address where none is: Flower would take every one. Raises `OpenToAll`."""
    options.address = options.address or LOOPBACK
    if not (_is_loopback(options.address) or has_login(options)):
        raise OpenToAll(
            f"Flower does not listen on {options.address} without a login: anybody there could see the workers and end "
            f"their tasks. Set FLOWER_BASIC_AUTH=NAME:PASSWORD (or --basic-auth, or OAuth with --auth), or leave "
            f"--address out to listen on {LOOPBACK}."
        )


def has_login(options: Options) -> bool:
    """Whether nobody comes in without a password or OAuth; a login with an empty part is none."""
    logins = [login.partition(":") for login in options.basic_auth or ()]
    return all(name and password for name, _, password in logins) if logins else bool(options.auth)


def _is_loopback(address: str) -> bool:
    """Other names may lead anywhere."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False
