"""What a run does about its subagents in the background: starts them again, waits for them, reads what they brought."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from drone.agent.control.agent_control import AgentControl, Mail
from drone.agent.model_call import room_for_results
from drone.agent.parts import AgentParts
from drone.agent.ports.conversations import as_content
from drone.agent.ports.journal import JournalError
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import ProcessExhausted, Report
from drone.agent.spending.allowance import Allowance
from drone.agent.state.record import RecordState
from drone.agent.turns.background import Background, BackgroundChild, OnEnd
from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Turn, title_of
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Origin
from mcc.contracts.fence import fenced
from mcc.contracts.git_facts import WorktreeMade
from mcc.contracts.record import RecordStatus
from mcc.transcript.previews import READ_ARTIFACT

SUBAGENT_STEER = "subagent_steer"

AT_ONCE = 20
"""Most reports that an agent is given at once."""

CHARACTERS = 4_000
"""Most characters of each; the whole is stored."""

_OVER = "the agent that it worked for has ended"


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """The subagents in the background of one run."""

    agent: AgentParts
    turn: Turn
    state: RecordState
    allowance: Allowance
    agent_control: AgentControl

    @property
    def _record_id(self) -> str:
        return self.state.origin.record_id or ""

    @property
    def owes(self) -> bool:
        """Whether an answer of the agent has to wait for some of them: it has a reply left in which to use them."""
        known = self.turn.background.get(self._record_id)
        if known is None or self.state.spending.landing is not None or self.agent_control.mail:
            return False
        return bool(known.owed) and not self.allowance.must_land

    async def wait(self) -> None:
        """Wait until all that an answer waits for have ended. Mail, and the time for the last reply, end the wait."""
        known, turn = self.turn.background[self._record_id], self.turn
        with turn.idle.waiting(self._record_id), self.agent_control.mail.announced(known.wake):
            async with turn.slots.lent(self._record_id):
                await known.until(
                    lambda: bool(self.agent_control.mail) or all(child.outcome is not None for child in known.owed),
                    max(0.0, self.allowance.seconds_for_call()),
                )

    async def has_news(self) -> bool:
        """Whether the agent has something to read before it hands in its result: mail, or what subagents bring, which
        are waited for."""
        owed = self.owes
        if owed:
            await self.wait()
        return owed or bool(self.agent_control.mail)

    async def deliver(self) -> bool:
        """Write an entry for each that has ended and whose report nobody has, at most `AT_ONCE`, and of several as many
        as the model's context has room for; False without any."""
        known = self.turn.background.get(self._record_id)
        ready = known.ready[:AT_ONCE] if known is not None else ()
        if not ready:
            return False
        room = room_for_results(self.agent.model, self.state)
        facts: list[AgentDelivered] = []
        for child in ready:
            fact = await self._delivered(child)
            if facts and len(fact.content) > room:
                break
            room -= len(fact.content)
            facts.append(fact)
        for child in ready[: len(facts)]:
            child.taken = True
        await self.turn.journal.write(self.state.origin, *facts)
        return True

    async def _delivered(self, child: BackgroundChild) -> AgentDelivered:
        artifacts, readable = self.turn.artifacts, any(spec.name == READ_ARTIFACT for spec in self.agent.specs)
        if isinstance(child.outcome, Report):
            text, digest = await as_content(child.outcome, artifacts)
        else:
            text, digest = child.outcome or "", None
        text, digest = await artifacts.fitted(text, readable=readable, room=CHARACTERS, artifact=digest)
        title = title_of(child.title or child.agent).translate(_PLAIN)
        said = f"<notice>Subagent {child.child_id} ({title}) ended: {child.status.value}.</notice>"
        content = f"{said}\n{fenced(text, child.child_id)}"
        return AgentDelivered(child_id=child.child_id, status=child.status, content=content, artifact=digest)

    async def restart(self) -> None:
        """Start again what the journal names as running in the background, and send what was not read of the agent's
        messages to it. Does nothing in a run that has begun under this drone."""
        turn, children = self.turn, self.state.children
        if not children.undelivered or self._record_id in turn.background:
            return
        known = background_of(turn, self.state.origin)
        calls = {receipt.call_id: receipt for receipt in self.state.receipts}
        places = {record_id: place for place, record_id in enumerate(turn.tree.ended)}
        for child_id in sorted(children.undelivered, key=lambda child_id: places.get(child_id, len(places))):
            call = calls.get(children.background[child_id])
            if (report := report_of_ended(turn, self.state.origin, child_id)) is not None:
                known.add(BackgroundChild(child_id, report.agent, report.title, _on_end(call), report))
        for call_id in dict.fromkeys(children.background[child_id] for child_id in children.undelivered):
            await self._call_again(known, calls.get(call_id), call_id)
        self._tell_again(known)

    async def _call_again(self, known: Background, call: CallReceipt | None, call_id: str) -> None:
        """The call that left them running, run again, goes on with those that have not ended."""
        children, why = self.state.children, "it is not known any more what it was asked"
        of_call = (child_id for child_id in children.undelivered if children.background[child_id] == call_id)
        missing = [child_id for child_id in of_call if not known.find(child_id)]
        if not missing:
            return
        if call is not None:
            egress = self.turn.egress.get(self._record_id, ())
            again = StartedCall(call_id, call.tool, call.arguments, self.state.origin, self.turn, egress)
            why = (await self.agent.tools.call(again)).content
        for child_id in missing:
            if known.find(child_id) is None:
                await let_go(self.turn, child_id, why)
                known.add(BackgroundChild(child_id, "", "", _on_end(call), f"It could not go on: {why}"))

    def _tell_again(self, known: Background) -> None:
        for call in self.state.receipts:
            child_id, message = call.arguments.get("record_id"), call.arguments.get("message")
            if call.tool == SUBAGENT_STEER and call.ok and isinstance(child_id, str):
                child = known.find(child_id)
                if child is not None and child.outcome is None:
                    tell(self.turn, child_id, str(message), call.call_id)


def tell(turn: Turn, child_id: str, message: str, call_id: str) -> None:
    """Send a subagent a message of its parent's, unless it has read the one of this call."""
    known = turn.tree.begun(child_id)
    if known is None or call_id not in known.children.told:
        turn.router.tell(child_id, Mail(message, call_id, by="parent"))


def background_of(turn: Turn, origin: Origin) -> Background:
    """The subagents in the background of an agent that is running here."""
    record_id = origin.record_id or ""
    if record_id not in turn.background:
        agent_control = turn.router.running(record_id)
        assert agent_control is not None
        turn.background[record_id] = Background(turn.router.cancel, agent_control.break_off)
    return turn.background[record_id]


@asynccontextmanager
async def ended_with(turn: Turn, origin: Origin) -> AsyncIterator[None]:
    """Context of an agent's rounds: when they end, whatever it has in the background ends, too."""
    soft = False
    try:
        yield
        soft = True
    except Exception as error:
        # After any other error nothing can be written any more.
        soft = not isinstance(error, JournalError | ProcessExhausted)
        raise
    finally:
        if (known := turn.background.get(origin.record_id or "")) is not None:
            try:
                await _end(turn, origin, known, soft=soft)
            finally:
                del turn.background[origin.record_id or ""]


async def _end(turn: Turn, origin: Origin, known: Background, *, soft: bool) -> None:
    if not soft:
        await known.end(_OVER, at_once=True)
        return
    # The answer first: whoever takes over must not think that its subagents ended before it.
    await turn.journal.write(origin)
    await known.end(_OVER, at_once=False)
    if known.error is not None:
        raise known.error
    for child in known:
        await let_go(turn, child.child_id, _OVER)


async def let_go(turn: Turn, child_id: str, why: str) -> None:
    """Close the record of an agent that does not run any more, if it has begun and not ended; one that has not begun
    counts against no limit any more. Raises `JournalError`."""
    turn.budget.spawn_began(child_id)
    known = turn.tree.begun(child_id)
    if known is not None and known.finished is None:
        await turn.journal.close(RecordStatus.CANCELLED, why, under=child_id)


def report_of_ended(turn: Turn, parent: Origin, child_id: str) -> Report | None:
    """The report of a subagent that has ended, and whose worktree, if it has one, has been brought back."""
    known, worktrees = turn.tree.begun(child_id), turn.tree.record(parent).children.worktrees
    if known is None or known.finished is None or isinstance(worktrees.get(child_id), WorktreeMade):
        return None
    return turn.tree.reports_of([child_id])[0]


def _on_end(call: CallReceipt | None) -> OnEnd:
    return "cancel" if call is not None and call.arguments.get("on_end") == "cancel" else "wait"


_PLAIN = str.maketrans({"<": "(", ">": ")"})
