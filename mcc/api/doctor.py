"""`mcc doctor` over HTTP."""

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.service import API, ServiceHere, answer, answers
from mcc.contracts.examination import ExaminationTold

router = APIRouter(prefix=API, tags=["fleet"])

FIXED = "doctor.fixed"
"""Kind of the audit note that somebody asked for repairs; each repair has a note of its own."""


@router.get("/doctor", responses=answers(ExaminationTold))
async def doctor(service: ServiceHere) -> Response:
    """What `mcc doctor` finds where this service runs, at most ten seconds old; 503 if it takes over 30 s."""
    return answer(await service.doctor.examine(service.settings))


@router.post("/doctor/fix", responses=answers(ExaminationTold))
async def fix(service: ServiceHere, caller: CallerHere) -> Response:
    """Repair what can be repaired by rule, as `mcc doctor --fix` does, then look."""
    await service.write(service.store.audit.note, FIXED, by=caller.actor, detail={})
    return answer(await service.doctor.examine(service.settings, fix=True))
