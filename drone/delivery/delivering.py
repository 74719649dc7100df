"""Delivers an order's work step by step: commits what nobody has, pushes its branch, opens or updates its request.

Each step stands in the journal before it begins and after it has ended, and can be repeated: a drone that takes the
order over finds what the one before has pushed or opened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

from drone.agent.control.agent_control import AgentControl
from drone.agent.permission_gate import ADVICE, PermissionGate
from drone.agent.ports.permits import Permits
from drone.agent.ports.report import Stopped
from drone.agent.turns.toolset import Output, Preview, StartedCall
from drone.agent.turns.turn import Turn, wait_while_paused
from drone.agent.turns.writing import hold_workspace
from drone.checkouts.mirror import CannotFetch, NotNow
from drone.checkouts.pushing import BranchLook, BranchPush, CannotPush
from drone.checkpoints.store import StoreBroken
from drone.delivery.committing import Committing
from drone.delivery.delivery_record import DeliveryRecord, DeliveryTarget
from drone.delivery.forges import AlreadyOpen, ForgeClient, MergeRequest, NewMergeRequest
from drone.delivery.request_text import RequestSummary, changed_body, mark_of, new_body, session_in, title_line
from drone.sandbox.places.paths import PathError
from drone.tools.frame.tool import ToolFailed
from mcc.contracts.entry import Origin
from mcc.contracts.git_delivery import (
    DELIVER,
    LATER,
    Deliver,
    DeliveryFinished,
    DeliveryRequest,
    GitDelivery,
)
from mcc.contracts.journal import AgentStep
from mcc.forges.wire import ForgeBusy, ForgeRefused
from mcc.permission.judging import INSTEAD
from mcc.transcript.messages import ToolSpec

MOST_BRANCHES = 50
"""How many requests of one branch may have ended before: each time, the next one gets another number."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
T = TypeVar("T")

SPEC = ToolSpec(
    name=DELIVER,
    description="Pushes a session's branch to its git address, and opens or updates the request to merge it.",
    parameters={"type": "object"},
    group=DELIVER,
    idempotent=True,
    effects="irreversible",
)
"""The tool as permissions see it; no model is shown it."""

ALLOWED_BY = ': mcc orders deliver asks you; an order that asks nobody needs permission = {deliver = "allow"}'
"""What to do about a delivery that is denied because nobody is asked."""

NOTHING = "Nothing changed: the branch has no commit that {base} lacks."


class CannotDeliver(Exception):
    """The work is not delivered; the sentence says why. It is kept in the checkout."""


class DeliverLater(Exception):
    """The forge or the git server cannot be asked now. `seconds`: the pause that it asks for. `record_id`: the record
    of the delivery, which has a step `LATER` for each time."""

    def __init__(self, sentence: str, record_id: str, seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.record_id = record_id
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class DeliveryHands:
    """What the steps are made with."""

    client: ForgeClient
    push: BranchPush
    commits: Committing
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class _Shown:
    """The tool as the permission gate asks for it: a call's preview is the diff."""

    diff: str

    async def preview(self, call: StartedCall) -> Preview:
        return Preview("diff", self.diff)


@dataclass(frozen=True, slots=True)
class DeliveryTask:
    """What is wished. `who`: the record of the delivery; `above`: that of the order's master, None = the order does
    nothing else."""

    target: DeliveryTarget
    wish: Deliver
    said: RequestSummary
    who: Origin
    above: Origin | None


class Delivering:
    """One delivery."""

    def __init__(self, task: DeliveryTask, hands: DeliveryHands, turn: Turn, permits: Permits) -> None:
        self._target, self._wish, self._said = task.target, task.wish, task.said
        self._above = task.above
        self._record = DeliveryRecord(turn, task.who, task.target)
        self._hands, self._turn, self._permits = hands, turn, permits
        self._delivery = GitDelivery(forge=task.target.name, project=task.target.project)
        self._commit = ""

    async def run(self) -> tuple[GitDelivery, bool]:
        """What became of it, and whether it is delivered as wished. Raises `DeliverLater`, `JournalError`."""
        if (ended := self._record.ended) is not None:
            return ended
        router, who = self._turn.router, self._record.who
        with ExitStack() as stack:
            if self._above is not None:
                # The master has ended; while its order delivers, controls reach the order through its record.
                stack.enter_context(router.entered(self._above))
            control = stack.enter_context(router.entered(who))
            stack.enter_context(self._turn.idle.moving(self._record.id, control.block))
            await self._record.begin()
            await router.arrived(who.record_id)
            why = await self._why_not(control)
            await router.settled()
        if why is not None:
            self._delivery = self._delivery.model_copy(update={"why": why})
        await self._record.end(self._delivery, self._commit, why or self._delivery.in_words, is_done=why is None)
        return self._delivery, why is None

    async def _why_not(self, control: AgentControl) -> str | None:
        """Deliver; answers why that is not possible."""
        try:
            await wait_while_paused(self._turn, control)
            await self._deliver(control)
        except (CannotDeliver, CannotPush, ForgeRefused, ToolFailed, StoreBroken, PathError, OSError) as problem:
            return str(problem)
        except DeliverLater as later:
            await self._record.write(AgentStep(name=LATER, message=f"waits, and tries again later: {later}"))
            raise
        except Stopped as stopped:
            return f"It was stopped before its work was delivered: {stopped}"
        return None

    async def _deliver(self, control: AgentControl) -> None:
        """Raises `CannotDeliver` and the errors that `_why_not` names, `DeliverLater`, `JournalError`, `Stopped`."""
        target, wish = self._target, self._wish
        branch = wish.branch or target.branch
        self._check_branch(branch)
        said = {"branch": branch, "base": wish.base or target.ref or ""}
        self._delivery = self._delivery.model_copy(update=said)
        # Before anything is committed: what is denied for good leaves the checkout as it is.
        asked = self._arguments(branch, said["base"], BranchLook("", "", None, 0, None, 0))
        if self._gate("").word(SPEC, asked) == "deny":
            await self._permitted(
                StartedCall(self._record.call_id("", branch), DELIVER, asked, self._record.who, self._turn), ""
            )
        if self._turn.writing is not None:
            await hold_workspace(self._turn, self._record.id, self._record.who, control)
        self._commit = await self._hands.commits.newest(self._record, self._delivery, title_line(self._said.subject))
        ended = await self._ended_meanwhile(branch)
        if ended is not None:
            await self._pushed_and_requested(ended)
            return
        branch = await self._free_branch(branch)
        look = await self._look(branch)
        if not look.ahead:
            nothing = NOTHING.format(base=look.base)
            self._delivery = self._delivery.model_copy(update={"base": look.base, "why": nothing})
            return
        await self._push(await self._allowed(look, branch), branch)
        if wish.pull_request:
            await self._request(look, branch)

    def _check_branch(self, branch: str) -> None:
        """Raises `CannotDeliver`."""
        if why := self._target.forge.why_not_pushed(branch, self._target.name):
            raise CannotDeliver(why)

    async def _ended_meanwhile(self, branch: str) -> MergeRequest | None:
        """The request of this very commit that a drone before this one had opened, and that somebody has merged or
        closed by now."""
        if not self._wish.pull_request or not self._record.has_started("request", self._commit, branch):
            return None
        return next(
            (
                request
                for request in await self._requests(branch)
                if request.commit == self._commit and request.state != "open"
            ),
            None,
        )

    async def _pushed_and_requested(self, request: MergeRequest) -> None:
        told = DeliveryRequest(number=request.number, url=request.url, state=request.state, created=True)
        self._delivery = self._delivery.model_copy(
            update={"commit": self._commit, "base": request.base, "request": told}
        )
        await self._record.write(DeliveryFinished(step="request", ok=True, commit=self._commit, request=told))

    async def _free_branch(self, branch: str) -> str:
        """The branch itself, or where its request was closed or merged, the next one whose request was not."""
        if not self._wish.pull_request:
            return branch
        for number in range(1, MOST_BRANCHES + 1):
            name = branch if number == 1 else f"{branch}-{number}"
            requests = await self._requests(name)
            if not requests or any(request.state == "open" for request in requests):
                self._delivery = self._delivery.model_copy(update={"branch": name})
                return name
        raise CannotDeliver(f"{MOST_BRANCHES} requests of {branch} were closed or merged: name another branch.")

    async def _look(self, branch: str) -> BranchLook:
        """Compare with what is there now. Raises `CannotDeliver` where this branch is not ours to push."""
        base = self._wish.base
        ref = self._target.ref if base is None else None
        look = await self._patiently(lambda: self._hands.push.look(self._commit, base, branch, begun_with=ref))
        self._delivery = self._delivery.model_copy(update={"base": look.base})
        if branch in (look.default, look.base):
            raise CannotDeliver(f"{branch} is not pushed to: it is the branch that requests are merged into.")
        if look.others:
            commits = "1 commit" if look.others == 1 else f"{look.others:,} commits"
            raise CannotDeliver(
                f"{branch} of {self._target.project} has {commits} by others, and nothing is overwritten: merge them "
                "into the session's checkout, or name another branch."
            )
        return look

    async def _allowed(self, look: BranchLook, branch: str) -> BranchLook:
        """What may be pushed, once that is permitted; a person may be asked. A drone before this one may have begun to
        push this commit to this branch: then it was permitted."""
        if self._record.has_started("push", self._commit, branch):
            return look
        while True:
            arguments = self._arguments(branch, look.base, look)
            call = StartedCall(
                self._record.call_id(self._commit, branch), DELIVER, arguments, self._record.who, self._turn
            )
            approval_id = await self._permitted(call, look.diff)
            fresh = look if approval_id is None else await self._look(branch)
            if (fresh.diff, fresh.base_commit) == (look.diff, look.base_commit):
                await self._record.step("push", self._delivery, self._commit, call, approval_id)
                return look
            look = fresh

    def _call(self, branch: str, arguments: Mapping[str, object]) -> StartedCall:
        call_id = self._record.call_id(self._commit, branch)
        return StartedCall(call_id, DELIVER, arguments, self._record.who, self._turn)

    def _gate(self, diff: str) -> PermissionGate:
        state = self._turn.tree.record(self._record.who)
        return PermissionGate(self._permits, _Shown(diff), (), self._turn, state)

    async def _permitted(self, call: StartedCall, diff: str) -> str | None:
        """The id of the approval, None where none is needed. Raises `CannotDeliver` where it is denied."""
        with self._turn.idle.waiting(self._record.who.record_id):
            decision = await self._gate(diff).decide(call, SPEC)
        if isinstance(decision, Output):
            said = decision.content.replace(ADVICE, "").replace(INSTEAD, "").strip()
            ruling = self._permits.judge(self._permits.request(SPEC, call.arguments, self._record.who))
            advice = ALLOWED_BY if ruling.word == "ask" and self._permits.on_ask == "deny" else ""
            raise CannotDeliver(f"{said} The work is kept in the checkout{advice}.")
        return None if decision is None else decision.approval_id

    def _arguments(self, branch: str, base: str, look: BranchLook) -> dict[str, object]:
        """What rules and people decide on. The newest commit is named by its id, which stands for all before it."""
        subjects = [f"{self._commit} {look.subjects[0]}", *look.subjects[1:]] if look.subjects else []
        return {
            "forge": self._target.name,
            "project": self._target.project,
            "branch": branch,
            "base": base,
            "title": title_line(self._said.title),
            "commits": subjects,
            "files": [file.path for file in look.files],
        }

    async def _push(self, look: BranchLook, branch: str) -> None:
        await self._turn.journal.confirm_held()
        if look.tip != self._commit:
            await self._patiently(lambda: self._hands.push.push(self._commit, branch))
        self._delivery = self._delivery.model_copy(update={"commit": self._commit})
        await self._record.write(DeliveryFinished(step="push", ok=True, commit=self._commit))

    async def _request(self, look: BranchLook, branch: str) -> None:
        is_again = self._record.has_started("request", self._commit, branch)
        await self._record.step("request", self._delivery, self._commit)
        await self._turn.journal.confirm_held()
        told = await self._patiently(lambda: self._opened_or_changed(look, branch, is_again=is_again))
        self._delivery = self._delivery.model_copy(update={"request": told})
        await self._record.write(DeliveryFinished(step="request", ok=True, commit=self._commit, request=told))

    async def _opened_or_changed(self, look: BranchLook, branch: str, *, is_again: bool) -> DeliveryRequest:
        """The request of the branch, opened where there is none. Repeated, it finds the one that it has opened."""
        said = replace(self._said, files=look.files)
        client, wish = self._hands.client, self._wish
        draft = self._target.forge.draft if wish.draft is None else wish.draft
        new = NewMergeRequest(branch, look.base, title_line(self._said.title), new_body(said), draft)
        known = await self._open_request(branch)
        if known is None:
            try:
                opened = await client.open(new)
                return DeliveryRequest(number=opened.number, url=opened.url, state=opened.state, created=True)
            except AlreadyOpen as problem:
                known = await self._open_request(branch)
                if known is None:
                    raise CannotDeliver(f"The forge has a request that it does not show: {problem}") from problem
        # People may quote the mark of another one beside ours.
        if mark_of(said.session_id) not in known.body and session_in(known.body) is not None:
            raise CannotDeliver(f"Request {known.number} of {branch} is that of another session: name another branch.")
        is_ours = is_again and known.body == new.body
        body = changed_body(known.body, said)
        if body != known.body:
            known = await client.change(known.number, body)
        return DeliveryRequest(number=known.number, url=known.url, state=known.state, created=is_ours)

    async def _open_request(self, branch: str) -> MergeRequest | None:
        return next((request for request in await self._hands.client.requests(branch) if request.state == "open"), None)

    async def _requests(self, branch: str) -> Sequence[MergeRequest]:
        return await self._patiently(lambda: self._hands.client.requests(branch))

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do this, again and again while it cannot be done now, for the `retry_seconds` of the forge. Raises
        `DeliverLater`."""
        waited, pause = 0.0, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await work()
            except (ForgeBusy, NotNow) as problem:
                wanted = problem.seconds if isinstance(problem, ForgeBusy) else None
                seconds = max(pause, wanted or 0.0)
                if waited + seconds > self._target.forge.retry_seconds:
                    raise DeliverLater(str(problem), self._record.id, wanted) from problem
            except CannotFetch as problem:
                raise CannotDeliver(str(problem)) from problem
            await self._hands.pause(seconds)
            waited, pause = waited + seconds, min(2 * pause, _LONGEST_PAUSE_SECONDS)
