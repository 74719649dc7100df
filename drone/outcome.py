"""What the report of the agent that answers for an order means for that order."""

from drone.agent.report import Cause, Report, failure_reason
from mcc.contracts.order import Outcome
from mcc.contracts.status import OrderStatus


def outcome_of(report: Report) -> Outcome:
    """What the master's report means for its order."""
    if report.cause is None:
        return _succeeded(report)
    reason = failure_reason(report.cause, report.limit)
    if reason is None:
        return Outcome(status=OrderStatus.CANCELLED, detail=report.error, answer=report.text or None)
    failed = Outcome(status=OrderStatus.FAILED, reason=reason, detail=f"{report.error}", answer=report.text or None)
    # The best that was handed in: nothing accepted it, and a person may still want to read it.
    if report.result is None and report.cause is not Cause.VERIFIER and not report.revisions:
        return failed
    return failed.model_copy(update={"result": report.result, "accepted": False})


def _succeeded(report: Report) -> Outcome:
    """What nobody judged although somebody was to stands, and people are told."""
    checked = report.checked
    unverified = checked is not None and checked.passed is None
    judged = report.result is not None or (checked is not None and checked.passed is True)
    return Outcome(
        status=OrderStatus.SUCCEEDED,
        answer=report.text,
        result=report.result,
        accepted=True if judged else None,
        detail=f"Not verified: {checked.error}".rstrip(".") + "." if checked is not None and unverified else None,
    )
