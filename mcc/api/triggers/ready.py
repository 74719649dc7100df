"""The triggers of a service, looked over before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcc.configuration.triggers import TriggerTable
from mcc.contracts.callers import TRIGGER, TRIGGER_DOOR, Actor
from mcc.settings import BadSettings, ServiceSettings
from mcc.triggers.checking import WrongTable, check_table
from mcc.triggers.signatures import secret_problem


@dataclass(frozen=True, slots=True)
class ReadyTrigger:
    """A table [triggers.NAME] whose expressions are compiled, with its secrets."""

    name: str
    table: TriggerTable
    secrets: tuple[str, ...]

    @property
    def actor(self) -> Actor:
        """As whom its orders are placed."""
        return Actor(self.table.principal or f"{TRIGGER}{self.name}", f"{TRIGGER_DOOR}{self.name}")


def ready_triggers(settings: ServiceSettings, secrets: Mapping[str, tuple[str, ...]]) -> Mapping[str, ReadyTrigger]:
    """The triggers that have secrets, by their paths. Raises `BadSettings`, with the place of what cannot be so."""
    ready: dict[str, ReadyTrigger] = {}
    for name, shared in secrets.items():
        table = settings.triggers[name]
        try:
            check_table(table, settings.reply_places)
            for secret in shared:
                if problem := secret_problem(table, secret):
                    raise WrongTable("secret_env", problem)
        except WrongTable as error:
            keys = error.place.partition("[")[0].split(".")
            place = settings.configuration.place_of("triggers", name, *keys)
            raise BadSettings(f"{place}: triggers.{name}.{error.place}: {str(error).rstrip('.')}.") from error
        ready[table.path] = ReadyTrigger(name, table, shared)
    return ready
