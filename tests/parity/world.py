"""One order on a real crew: shipped agents and tools, a model that says what a test wrote."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drone.agent.control.control_router import ControlRouter
from drone.agent.control.idle_watch import IdleWatch
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, Model, WantedCall
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.registry import Models
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from mcc.configuration.trust import TrustStore
from mcc.contracts.drones import Capability
from mcc.contracts.entry import Entry
from mcc.contracts.order import OrderOutcome
from mcc.contracts.record import ChatRecord, ToolStep
from mcc.transcript.messages import AssistantMessage, UserMessage
from mcc.transcript.transcript import request_in

Play = Callable[[str, int, Ask], Said]
"""Says the next reply of the agent with this task, which has replied so often, to what it is asked."""


class OneModel(Models):
    """Models of which every name that is known is the same one."""

    def __init__(self, model: Model, names: Sequence[str] = ()) -> None:
        self._only = model
        self._names = names

    def get(self, name: str) -> Model:
        from drone.models.guards import UnknownModel

        if name not in self._names:
            raise UnknownModel(f"There is no model {name!r}.")
        return self._only

    @property
    def default(self) -> Model:
        return self._only

    def capabilities(self) -> tuple[Capability, ...]:
        return ()

    async def aclose(self) -> None:
        return None


@dataclass
class World:
    """Where an order runs: files of its workspace, agent files of the operator, and the play of its model."""

    folder: Path
    play: Play
    files: Mapping[str, str] = field(default_factory=lambda: {"README.md": "# A garden\n", "src/a.py": "A = 1\n"})
    agents: Mapping[str, str] = field(default_factory=dict)
    models: Sequence[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    toolbox: Toolbox | None = None

    def __post_init__(self) -> None:
        self.workspace = self.folder / "workspace"
        self.prompts = self.folder / "prompts"
        for path, text in self.files.items():
            _write(self.workspace / path, text)
        self.workspace.mkdir(parents=True, exist_ok=True)
        for name, text in self.agents.items():
            where = "master" if name == "master" else f"subagent/{name}"
            _write(self.prompts / where / "system.md", text)
        self.prompts.mkdir(parents=True, exist_ok=True)
        self.model = ScriptedModel(self._say)
        self.trust = TrustStore(self.folder / "configuration" / "trust.json")
        self.entries: list[Entry] = []

    def _say(self, ask: Ask) -> Said:
        prompts = (request_in(message.text) for message in ask.messages if isinstance(message, UserMessage))
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        return self.play(next(prompts, ""), replies, ask)

    async def run(self, prompt: str = "go", *limits: str, agent: str = "master", **more: Any) -> OrderOutcome:
        """The order's outcome; `more` are further fields of the order, `watch` sees each entry.

        `parks`: the order may be laid aside, as in a service.
        """
        watch, parks = more.pop("watch", lambda entry: None), more.pop("parks", False)
        order = order_from(prompt, self.workspace, agent, None, list(limits)).model_copy(update=more)
        settings = Settings(workspace_roots=(str(self.workspace),), keys=self.keys)
        crew = Crew(
            settings, Definitions.load(self.prompts), OneModel(self.model, self.models), self.toolbox, self.trust
        )
        self.deltas: list[tuple[str | None, str, str]] = []
        self.journal = MemoryJournal(
            order.id,
            watch=lambda entry: watch(self._remembered(entry)),
            hear=lambda origin, kind, text: self.deltas.append((origin.record_id, kind, text)),
        )
        router = ControlRouter(self.journal, idle=IdleWatch(parks=parks))
        return await crew.run(order, OrderContext(self.journal, router=router))

    @property
    def record(self) -> ChatRecord:
        record = self.journal.fold.record()
        assert record is not None
        return record

    def records(self) -> list[ChatRecord]:
        """The whole tree, parents first."""
        found, waiting = [], [self.record]
        while waiting:
            record = waiting.pop(0)
            found.append(record)
            waiting.extend(record.subagent_history)
        return found

    def results(self, record: ChatRecord | None = None) -> list[ToolStep]:
        return [step for step in (record or self.record).steps if step.kind == "tool"]

    def notes(self, name: str, record: ChatRecord | None = None) -> list[str]:
        steps = (record or self.record).steps
        return [step.message for step in steps if step.kind == "note" and step.name == name]

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.entries]

    def _remembered(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        return entry


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def calls(*wanted: WantedCall) -> Line:
    return Line(calls=wanted)


def team(*agents: Mapping[str, Any], mode: str = "parallel", **more: Any) -> Line:
    """A reply that runs these agents; each is {id, role, task, …}."""
    return calls(call("subagents_run", agents=[dict(agent) for agent in agents], mode=mode, **more))


def piece(name: str, role: str = "explore", **more: Any) -> dict[str, Any]:
    return {"id": name, "role": role, "task": name, **more}


def report(summary: str = "Done.", **more: Any) -> Line:
    return calls(call("submit_result", **{"status": "completed", "summary": summary, **more}))
