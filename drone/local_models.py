"""`drone models`: the models of this configuration, listed or tried in this process, without broker and database."""

from collections.abc import Iterable

from drone.crew import Crew
from drone.models.registry import Models
from drone.settings import Settings
from mcc.contracts.model_checks import ModelCheck
from mcc.view.model_checks import print_checks
from mcc.view.output import print_json, print_table


def list_here(settings: Settings, as_json: bool) -> bool:
    """Print them, and why one cannot be asked; True."""
    found = Models(settings).capabilities()
    if as_json:
        print_json({"items": found})
    else:
        rows = [(one.name, one.problem or "ok", one.description) for one in found]
        print_table(("NAME", "STATE", "DESCRIPTION"), rows, empty="")
    return True


async def check_here(settings: Settings, names: Iterable[str], *, as_json: bool) -> bool:
    """Try these, all of them where none is named, and print what was found; whether all of them answered."""
    found: list[ModelCheck] = []

    async def tell(row: ModelCheck) -> None:
        found.append(row)

    crew = Crew.from_settings(settings)
    try:
        await crew.check_models(names, tell)
    finally:
        await crew.close()
    rows = sorted(found, key=lambda one: one.name)
    print_json({"items": rows}) if as_json else print_checks(rows)
    return all(one.problem is None for one in rows)
