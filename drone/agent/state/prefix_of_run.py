"""Why the requests of one run do not begin with the ones before them, where they do not."""

from dataclasses import dataclass, field

from drone.agent.ports.model import Ask
from drone.agent.ports.prefix import PrefixWatch, Why, told
from drone.agent.state.record import RecordState
from mcc.contracts.journal import AgentStep


@dataclass(slots=True)
class PrefixOfRun:
    """Compares the requests of a run. `due`: why its first one differs from the last one of the turn before, as far as
    that is known before it is made; `always`: it is told even if both begin alike."""

    state: RecordState
    watch: PrefixWatch
    due: Why | None = None
    always: bool = False
    _found: int = field(init=False)
    _shortened: tuple[int, int, int, str] = field(init=False)

    def __post_init__(self) -> None:
        self._found, self._shortened = len(self.state.conversation.found), self._cuts

    @property
    def _cuts(self) -> tuple[int, int, int, str]:
        """Changes with whatever shortens the transcript, which tells that itself."""
        transcript = self.state.conversation.transcript
        clipped = sum(clip.characters - clip.kept for clip in transcript.clips.values())
        return transcript.hidden.times, clipped, len(transcript.put_away), transcript.summary or ""

    def compare(self, asked: Ask) -> AgentStep | None:
        """Compare a request with the one before it; the step that tells why it does not begin with that, if so."""
        before = self.watch.last
        now = self.watch.measure(asked)
        is_whole = before is None or now.same_bytes >= before.bytes
        why: Why | None = self.due if self.always or not is_whole else None
        tools_found, cuts = len(self.state.conversation.found), self._cuts
        if why is None and not is_whole and cuts == self._shortened:
            why = "tool_search" if tools_found > self._found else "tools"
        self._found, self._shortened, self.due, self.always = tools_found, cuts, None, False
        return None if why is None else told(why)
