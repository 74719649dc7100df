"""This room is for what an agent waits for between its steps: its place, the end of a pause, its provider."""

from datetime import timedelta

from drone.agent.controls.helm import Helm
from drone.agent.controls.standstill import Block
from drone.agent.ports import AskLater
from drone.agent.turn import Turn
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason


async def unhindered(turn: Turn, helm: Helm) -> None:
    """Return once this agent has its place again and nobody holds it up. Raises `Ended`."""
    record_id = helm.origin.record_id or ""
    with turn.standstill.still(record_id):
        await turn.places.regained(record_id)
    await rest(turn, helm)


async def rest(turn: Turn, helm: Helm) -> None:
    """Wait until nobody holds this agent up; meanwhile others may have its place. Raises `Ended`."""
    record_id = helm.origin.record_id or ""
    helm.check()
    while (block := helm.block()) is not None:
        async with turn.blocked(record_id, record_id, block):
            await helm.passes()


async def leave_alone(turn: Turn, helm: Helm, refusal: AskLater) -> None:
    """Wait until the provider wants to be asked again, or a person resumes the agent; others may have its place."""
    record_id = helm.origin.record_id or ""
    until = now() + timedelta(seconds=refusal.seconds)
    block = Block(WaitingReason.RATE_LIMIT, str(refusal).rstrip("."), until)
    async with turn.blocked(record_id, record_id, block):
        await helm.wait_out(refusal.seconds)
