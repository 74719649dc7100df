"""The conversation of one agent as it is compacted: where each message comes from, and where it is cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from drone.agent.ports.model import Model, is_forgotten
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from drone.threads import in_thread
from mcc.contracts.compaction import KeptFrom
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.compaction.cuts import ContextWindow, kept_from, size
from mcc.transcript.compaction.gathered import Gathered, Part, is_summary
from mcc.transcript.environment import CHANGED
from mcc.transcript.messages import Message
from mcc.transcript.shown import ShownMessage


@dataclass(frozen=True, slots=True)
class Began:
    """What a run began with: `before` messages whose place nobody knows, `shown` ones of earlier turns, and `more` of
    its own conversation, the last of them its prompt; 0: no turn runs. `environment`: all that it can be told of its
    surroundings. `earlier`: the model that gave the last of the replies shown, where it is another one. `last_at`: when
    the last request of earlier turns was answered; None: not known. `rolled_back`: turns after those shown were taken
    back."""

    before: int
    shown: Sequence[ShownMessage]
    more: int
    environment: str = ""
    earlier: Model | None = None
    last_at: datetime | None = None
    rolled_back: bool = False

    def places(self) -> list[tuple[int, int]]:
        """Of each message the turn and the number of its entry; 0 where they are not known."""
        known = [(one.turn, int(one.form["seq"])) for one in self.shown]
        return [(0, 0)] * self.before + known + [(0, 0)] * self.more


@dataclass(frozen=True, slots=True)
class PlannedCut:
    """The messages before number `at` are to go; what is gathered from them."""

    at: int
    gathered: Gathered
    environment: str
    kept_from: KeptFrom | None


class ShownConversation:
    """What the model of `state` is shown, with the turn of each message. `tree` knows the agents that it hired."""

    def __init__(self, tree: Tree, state: RecordState) -> None:
        self._tree = tree
        self._state = state
        self._began = Began(0, (), 1)

    def begin(self, began: Began) -> None:
        """Learn what the run began with."""
        self._began = began

    def is_cold(self, model: Model) -> bool:
        """Whether the provider of `model` has nothing of the conversation in its cache any more."""
        asking = self._state.asking
        if asking.replied_at is None and self._began.earlier is not None:
            return True
        return is_forgotten(model, asking.replied_at or self._began.last_at)

    def with_places(self) -> tuple[Sequence[Message], Sequence[tuple[int, int]]]:
        """All messages, and of each the turn (0: the running one, or unknown) and the number of its entry."""
        transcript = self._state.conversation.transcript
        places = transcript.began_with(self._began.places())
        began = [place if isinstance(place, tuple) else (0, 0) for place in places]
        return transcript.messages, (*began, *[(0, 0)] * len(transcript.said))

    async def cut(self, window: ContextWindow, keep_turns: int) -> PlannedCut | None:
        """What a summary takes the place of: all but the newest turns, the running one among them, as far as these take
        a quarter of the window; the last round stays whatever its length. None: nothing would go."""
        messages, places = self.with_places()
        transcript = self._state.conversation.transcript
        running = len(transcript.opening) - (transcript.summary is None or transcript.opening_kept > 0)
        starts = [number for number, (turn, _) in enumerate(places) if turn and places[number - 1][0] != turn]
        most = window.tokens // 4 * CHARACTERS_PER_TOKEN
        if self._began.more:
            starts.append(running)
        elif keep_turns and len(starts) <= keep_turns and sum(map(size, messages)) <= most:
            return None
        first = (starts or [0])[-keep_turns:][0] if keep_turns else len(messages) - 1
        at = kept_from(messages, first, most)
        if at is None or (at == 1 and not self._began.more and is_summary(messages[0])):
            return None
        return await self.gathered(at, window)

    async def gathered(self, at: int, window: ContextWindow) -> PlannedCut:
        """A cut before message `at`, with all that is gathered from those before it; in a thread, as it takes seconds
        for a large window, and other orders run on this loop."""
        messages, places = self.with_places()
        state, transcript = self._state, self._state.conversation.transcript
        part = Part(messages[:at], places[:at])
        # Of a later turn the first message has only what has changed: the whole was in a message that goes.
        keeps_its_first = at < len(transcript.opening) and (transcript.summary is None or transcript.opening_kept > 0)
        told = state.started.environment if state.started is not None and keeps_its_first else ""
        environment = "" if told and not told.startswith(CHANGED) else self._began.environment
        kept = None
        if at < len(places) and places[at][0]:
            shown = next(message for message in self._began.shown if (message.turn, message.form["seq"]) == places[at])
            kept = KeptFrom(order_id=shown.order_id, seq=places[at][1])
        gathered = await in_thread(Gathered.of, part, self._agents(), state.asking.carried, window)
        return PlannedCut(at, gathered, environment, kept)

    def _agents(self) -> list[str]:
        """A line for each agent that it has hired; those whose reports it does not have yet come last."""
        lines = []
        children = self._state.children
        undelivered = children.undelivered
        ended = (record_id for record_id in children.ids if record_id not in children.background)
        delivered = (record_id for record_id in children.background if record_id in children.delivered)
        for record_id in dict.fromkeys((*ended, *delivered, *undelivered)):
            record = self._tree.begun(record_id)
            if record is None:
                if record_id in children.background:
                    lines.append(f"{record_id} has not begun: queued")
                continue
            status = "running" if record.finished is None else record.finished.status.value
            if record.finished is not None and record_id in children.background and record_id not in children.delivered:
                status = f"{status}, its report is on the way"
            title = " ".join((record.started.title if record.started is not None else "").split())
            lines.append(f"{record_id} {record.origin.agent} {title!r}: {status}")
        return lines
