"""The permission check before a tool call: allow, deny, or ask a person; an approval is re-checked before the call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TypeAlias

from drone.agent.control.idle_watch import Block
from drone.agent.ports.inbox_item import InboxItem, in_full, invisible_in, shown_arguments
from drone.agent.ports.permits import Permits, effects_of, is_background_safe
from drone.agent.state.record import RecordState
from drone.agent.turns.call_ends import refusal
from drone.agent.turns.toolset import Output, Preview, Previews, StartedCall, ToolSet, preview_of
from drone.agent.turns.turn import Turn
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, ShownPreview
from mcc.contracts.invisible import count_invisible
from mcc.contracts.journal import Outcome
from mcc.contracts.permission import SavedRule, Why, Word
from mcc.contracts.shape import digest, now
from mcc.contracts.status import WaitingReason
from mcc.permission.judging import Ruling
from mcc.transcript.messages import WRITING_GROUPS, ToolSpec

MAX_REQUESTS = 10
"""Most approvals requested for one call whose effect keeps changing between approval and run."""

PREVIEW_CHARACTERS = 24_000
"""Most characters of a preview in the inbox; the whole is stored as an artifact."""

_LINE = 200

Approval: TypeAlias = ApprovalRequested
"""The request that was approved."""

Decision: TypeAlias = Approval | Output | None
"""The decision on a call: an approval, an error result (denied), or None (allowed without approval)."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a call would do now: preview, sandbox profile, and a digest of everything an approval depends on."""

    digest: str
    profile: str
    preview: Preview | None


@dataclass(frozen=True, slots=True)
class _Request:
    """An approval request for a call, and its inbox item with the decision."""

    fact: ApprovalRequested
    item: InboxItem

    @property
    def decision(self) -> str | None:
        heard = self.item.heard
        return heard.decision if isinstance(heard, ApprovalDecided) else None


class PermissionGate:
    """Decides on the tool calls of one agent's run. `egress`: the lists of hosts that its calls have."""

    def __init__(
        self,
        permits: Permits,
        tools: ToolSet | Previews,
        egress: Sequence[Sequence[str]],
        turn: Turn,
        state: RecordState,
    ) -> None:
        self._permits = turn.permitted(state.origin, permits)
        self._tools = tools
        self.egress = turn.reachable(state.origin, egress)
        self._turn = turn
        self._state = state

    def word(self, spec: ToolSpec, arguments: Mapping[str, object]) -> Word:
        """The decision of the rules: allow, deny or ask."""
        return "deny" if self._is_unsafe(spec) else self._ruled(spec, arguments).word

    def _is_unsafe(self, spec: ToolSpec) -> bool:
        """Whether the agent runs in the background, and the tool is not for agents there."""
        return not is_background_safe(spec) and self._turn.in_background(self._state.origin.record_id)

    async def decide(self, call: StartedCall, spec: ToolSpec) -> Decision:
        """The approval under which the call may run, None where it needs none; or an error result for the model.

        Returns once a person has decided or the request has expired. Raises `JournalError`.
        """
        if self._is_unsafe(spec):
            return denied(_UNSAFE.format(name=spec.name))
        before, ruling, people = self._requests_for(call), self._ruled(spec, call.arguments), self._turn.inbox.people
        if ruling.word == "ask" and not before:
            # Grants are read from the database, so only for a call that would have to wait for a person.
            ruling = self._ruled(spec, call.arguments, await people.grants())
        if ruling.word == "deny":
            return denied(ruling.message or f"{spec.name} is not allowed here{_because(ruling.why)}. {ADVICE}")
        if ruling.word == "allow" and not before:
            return None
        if self._permits.on_ask == "deny" or not people.reaches:
            why = f"a person has to approve it{_because(ruling.why)}, and in this order nobody is asked"
            return denied(ruling.message or f"{spec.name} was not run: {why}. {ADVICE}")
        return await self._decided(call, spec, ruling)

    async def still_covers(self, approval: Approval, call: StartedCall, spec: ToolSpec) -> bool:
        """Whether the call would still do what was approved, and no rule denies it meanwhile."""
        would = await self._effect_of(call, spec)
        same = isinstance(would, _Effect) and would.digest == approval.digest
        return same and self.word(spec, call.arguments) != "deny"

    async def _decided(self, call: StartedCall, spec: ToolSpec, ruling: Ruling) -> Approval | Output:
        while True:
            before = self._requests_for(call)
            if not before or before[-1].decision == "approve":
                with self._turn.idle.moving(call.call_id):
                    decision = await self._approval_or_request(call, spec, ruling, before)
                if decision is not None:
                    return decision
                continue
            last = before[-1]
            if last.decision is not None:
                assert isinstance(last.item.heard, ApprovalDecided)
                return denied(_refusal(spec.name, last.item.heard))
            who = call.origin.agent or "an agent"
            block = Block(WaitingReason.APPROVAL, f"{who} asks whether it may use {spec.name}", last.fact.expires_at)
            async with self._turn.blocked(call.call_id, call.origin.record_id, block):
                await self._turn.inbox.said(call.origin, last.item)

    async def _approval_or_request(
        self, call: StartedCall, spec: ToolSpec, ruling: Ruling, before: Sequence[_Request]
    ) -> Decision:
        """The last approval, if it covers what the call would do now; an error result; or None after asking a person
        (again)."""
        would = await self._effect_of(call, spec)
        if isinstance(would, Output):
            return would
        if before and before[-1].fact.digest == would.digest:
            return before[-1].fact
        if len(before) >= MAX_REQUESTS:
            return denied(
                f"{spec.name} was not run: each time it was approved, it would have done something else by then."
            )
        asked = ApprovalRequested(
            approval_id=derived_id(call.call_id, "approval", len(before) + 1),
            call_id=call.call_id,
            tool=spec.name,
            arguments=shown_arguments(call.arguments),
            effects=effects_of(spec),
            profile=would.profile or None,
            workspace=self._permits.workspace or None,
            digest=would.digest,
            preview=await self._shown(call, would.preview),
            why=ruling.why,
            would_save=ruling.would_save,
            expires_at=now() + timedelta(seconds=self._turn.inbox.people.expire_seconds),
        )
        if before:
            asked = asked.model_copy(update={"again": _again(before[-1].fact, asked)})
        await self._turn.journal.write(call.origin, asked)
        return None

    async def _shown(self, call: StartedCall, preview: Preview | None) -> ShownPreview:
        """The preview for the person who decides; where the tool has none, the whole of its arguments."""
        if preview is None:
            shown = self._turn.redactor.value(call.arguments)
            preview, hidden = Preview("text", f"{call.name} {in_full(shown)}"), invisible_in(shown)
        else:
            hidden = count_invisible(preview.text)
        shown_text = preview.text
        text, artifact = await self._turn.artifacts.fitted(shown_text, readable=False, room=PREVIEW_CHARACTERS)
        same = None if text == shown_text else sha256(shown_text.encode("utf-8", "surrogatepass")).hexdigest()
        return ShownPreview(kind=preview.kind, text=text, artifact=artifact, sha256=same, hidden=hidden)

    async def _effect_of(self, call: StartedCall, spec: ToolSpec) -> _Effect | Output:
        preview = await preview_of(self._tools, call)
        if isinstance(preview, Output):
            return preview
        profile = profile_of(spec, self.egress)
        seen = None if preview is None else (preview.kind, preview.text)
        bound = (spec.name, spec.definition, call.arguments, self._turn.workspace_key, profile, seen)
        return _Effect(f"sha256:{digest(bound)}", profile, preview)

    def _ruled(self, spec: ToolSpec, arguments: Mapping[str, object], grants: Sequence[SavedRule] = ()) -> Ruling:
        asked = self._permits.request(spec, arguments, self._state.origin, profile_of(spec, self.egress))
        return self._permits.judge(asked, grants)

    def _requests_for(self, call: StartedCall) -> list[_Request]:
        """The approval requests for this call so far, newest last."""
        items = self._state.conversation.items.values()
        facts = [(one.asked, one) for one in items if one.asked.call_id == call.call_id]
        return [_Request(fact, item) for fact, item in facts if isinstance(fact, ApprovalRequested)]


def profile_of(spec: ToolSpec, egress: Sequence[Sequence[str]] = ()) -> str:
    """The sandbox profile of programs that the tool runs; "" where it runs none. `egress`: as in `StartedCall`."""
    network = "+network" if spec.networked and all(egress) else ""
    if spec.group in WRITING_GROUPS:
        return f"workspace-write{network}"
    return f"read-only{network}" if spec.group in _READING else ""


_READING = frozenset({"workspace_read", "diff_read", "git_read", "shell_read"})
_UNSAFE = (
    "{name} was not run: you work in the background, and it asks a person or cannot be undone. "
    "Say in your report what is left to do with it; the agent that started you may do that."
)
ADVICE = "Do not try it again as it is: go another way, or say what you could not do."


def denied(said: str) -> Output:
    """The error result that tells the model why a call was not run."""
    return refusal(said, Outcome.DENIED)


def _because(why: Why) -> str:
    named = f" ({why.key})" if why.key else ""
    said = f": {why.message.rstrip('.')}" if why.message else ""
    return f" by {_LAYER_NAMES[why.layer]}{named}{said}"


_LAYER_NAMES = {
    "operator": "the operator's rules",
    "mode": "the mode of the order",
    "agent": "your own rules",
    "ancestor": "the rules of the agent above you",
    "order": "the rules of the order",
    "default": "default, because it cannot be undone",
    "grant": "a grant",
}


def _refusal(name: str, heard: ApprovalDecided) -> str:
    if heard.decision == "expired":
        return f"{name} was not run: a person had to approve it, and nobody decided in time. {ADVICE}"
    note = f" The person says: {json.dumps(heard.note, ensure_ascii=False)}." if heard.note else ""
    return f"{name} was not run: a person denied it.{note} {ADVICE}"


def _again(before: ApprovalRequested, asked: ApprovalRequested) -> str:
    """A sentence saying what differs from the previous request."""
    differences = [
        f"the {name} is {now or 'none'}, and was {then or 'none'}"
        for name, then, now in (
            ("profile", before.profile, asked.profile),
            ("workspace", before.workspace, asked.workspace),
        )
        if then != now
    ]
    if before.preview != asked.preview:
        differences.append(f"what it would do has changed: {_first_difference(before.preview, asked.preview)}")
    return "; ".join(differences) or "the tool or its workspace has changed since"


def _first_difference(before: ShownPreview | None, asked: ShownPreview | None) -> str:
    then = before.text.split("\n") if before else []
    there = asked.text.split("\n") if asked else []
    number = next((n for n, (one, other) in enumerate(zip(then, there, strict=False)) if one != other), None)
    if number is None:
        return f"{len(there)} lines, and not {len(then)}"
    return f"line {number + 1} is {there[number][:_LINE]!r}, and was {then[number][:_LINE]!r}"
