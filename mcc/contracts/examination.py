"""What `mcc doctor` found and repaired, as the service tells it."""

from typing import Literal

from mcc.contracts.shape import Closed, Moment, Text


class FindingTold(Closed):
    """`what` names the check; `advice`: what to do about a state other than ok; `fix`: the repair that would help."""

    what: str
    state: Literal["ok", "warning", "broken"]
    detail: Text
    advice: Text = ""
    order_id: str | None = None
    drone: str | None = None
    fix: str | None = None


class RepairTold(Closed):
    """What a repair did; or where `done` is False, why it could not be made."""

    fix: str
    detail: Text
    order_id: str | None = None
    done: bool = True


class ExaminationTold(Closed):
    """`ok`: nothing is broken. `unrepaired`: why nothing was repaired. `at`: when it was looked."""

    ok: bool
    findings: tuple[FindingTold, ...]
    repairs: tuple[RepairTold, ...] = ()
    unrepaired: Text | None = None
    at: Moment
