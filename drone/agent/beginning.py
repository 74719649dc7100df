"""What a turn begins with: the set-up of the turn before where nothing has changed, and why it sends something else."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from drone.agent.parts import AgentParts
from drone.agent.ports.model import is_forgotten
from drone.agent.ports.prefix import PrefixWatch, Why
from drone.agent.state.prefix_of_run import PrefixOfRun
from drone.agent.state.record import RecordState
from mcc.contracts.turn_context import LastRequest, TurnBefore
from mcc.transcript.asked import session_key
from mcc.transcript.opening import SessionOpening
from mcc.transcript.setup import Setup


@dataclass(frozen=True, slots=True)
class RunBeginning:
    """What a run sends and compares. `setup` None: its agent's own. `cache_key`: as in `Ask`."""

    setup: Setup | None
    prefix: PrefixOfRun
    cache_key: str


class SessionBeginning:
    """How a turn of a session begins. `name`: what its agent is called in the record."""

    def __init__(self, agent: AgentParts, opening: SessionOpening, name: str) -> None:
        self._agent = agent
        self._opening = opening
        self._name = name
        self._before = opening.before
        self.key = agent.setup_key(opening.surroundings)

    async def setup(self, kept: Callable[[str], Awaitable[str | None]]) -> Setup | None:
        """The set-up of the turn before, with the tools that it found; None where all is the agent's own."""
        before, agent = self._before, self._agent
        text = None if before is None else await kept(before.setup_digest)
        if before is None or text is None:
            return None
        try:
            earlier = Setup.read(text, agent.known_specs)
        except ValueError:
            return None
        stays = before.setup_key == self.key and not self._is_short and not self._is_cold
        system, specs = (earlier.system, earlier.specs) if stays else (agent.system, agent.specs)
        deferred = {spec.name: spec for spec in agent.known_specs if spec.deferred}
        names = {spec.name for spec in specs}
        # Those of the turns before are in their set-up.
        searched = dict.fromkeys([*(spec.name for spec in earlier.specs if spec.name in deferred), *before.found])
        more = tuple(replace(deferred[name], deferred=False) for name in searched if name in deferred.keys() - names)
        if not stays and not more:
            return None
        return Setup(system, (*specs, *more), withheld=frozenset(spec.name for spec in agent.specs) - names)

    @property
    def _is_short(self) -> bool:
        """Whether what is shown was shortened since the turn before, so that nothing of it is cached."""
        return self._opening.put_away > 0 or (self._before is not None and self._before.compacted)

    @property
    def _is_cold(self) -> bool:
        return is_forgotten(self._agent.model, self._opening.last_at)

    def cache_key(self, first_record: str) -> str:
        """The same in all requests of a session's agent; in those of any other conversation, its first record."""
        session_id = self._opening.session_id
        return session_key(session_id, self._name) if session_id else first_record

    @property
    def environment_told(self) -> Mapping[str, str]:
        """The digests of the parts of the environment that its model can read in what it is shown."""
        last = None if self._before is None else self._before.last
        return {} if last is None or self._is_short or self._opening.mode == "answers" else last.environment

    def prefix(self, state: RecordState) -> PrefixOfRun:
        """Compares the run's requests, the first one with the last one of the turn before."""
        before = self._before
        told = before is not None and before.clipped  # by the entry that put it away
        if before is None or before.last is None or told or self._is_short or self._opening.mode == "answers":
            return PrefixOfRun(state, PrefixWatch())
        why, always = self._why(before, before.last)
        return PrefixOfRun(state, PrefixWatch(before.last.prefix), why, always)

    def _why(self, before: TurnBefore, last: LastRequest) -> tuple[Why, bool]:
        """What the first request differs for, if it does, and whether that is so in any case."""
        if self._opening.repeats:
            return "retry", True
        if before.rolled_back:
            return "rollback", True
        if before.repeated:
            return "retry", False
        shown = self._opening.shown
        if sum(message.order_id != shown[-1].order_id for message in shown) < (last.opening_messages or 0):
            return "rollback", False  # of a turn before the last one
        if last.agent != self._name:
            return "agent", False
        if last.model != self._agent.model.name:
            return "model", True
        if before.setup_key != self.key:
            return "agent", False
        return ("cold" if self._is_cold else "tools"), False
