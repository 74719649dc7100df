"""This room is for Flower's place in the family: a free port, a login of its own, and whether it answers."""

import socket

from mcc.local.child import Command
from mcc.local.programs import Household
from mcc.local.ready import Service

HOST = "127.0.0.1"


class Flower:
    """Chooses a port at its start, and another one when a later start finds that port taken."""

    def __init__(self, household: Household, login: str) -> None:
        self._household = household
        self._login = login
        self._port = _free_port()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def command(self) -> Command:
        if not _is_free(self._port):
            self._port = _free_port()
        return self._household.flower(self._port, self._login)

    def answers(self) -> bool:
        """Its health check needs no login."""
        return Service(HOST, self._port).get("/healthcheck")[0] == 200


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((HOST, port)):
            return True
    except OSError:
        return False
