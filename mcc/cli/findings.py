"""This room is for what a look at one part found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mcc.settings import Settings

State = Literal["ok", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` says what to do, for all that is not ok."""

    what: str
    state: State
    detail: str
    advice: str = ""

    def told(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at. `redis_url` is the configured one, else that of the family that runs here; may be empty."""

    settings: "Settings"
    environment: Mapping[str, str]
    redis_url: str
    seconds: float


Look = Callable[[Patient], Iterable[Finding]]


def safely(what: str, look: Look, patient: Patient) -> list[Finding]:
    """A look that itself fails is a finding, so that the others are still made."""
    try:
        return list(look(patient))
    except Exception as error:
        return [Finding(what, "broken", f"could not be looked at: {type(error).__name__}: {error}", "report this")]
