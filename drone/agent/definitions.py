"""This room is for the agents of an installation: their files found, read once, and checked against each other."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import Capability
from mcc.definitions.agents import parse_agent
from mcc.definitions.errors import DefinitionError, suggestion
from mcc.definitions.front_matter import FILE_BYTES, decoded
from mcc.definitions.groups import TOOL_GROUPS, GroupTable

MASTER = "master"
_FILE = "system.md"


@dataclass(frozen=True, slots=True)
class Definitions:
    """All agents that orders and agents may name. A broken file is kept with its problem instead of a definition."""

    directory: Path
    agents: Mapping[str, AgentDefinition]
    problems: Mapping[str, str]

    @classmethod
    def load(cls, prompts_dir: Path | str | None = None, groups: GroupTable = TOOL_GROUPS) -> "Definitions":
        """Read `master/system.md` and `subagent/*/system.md` under `prompts_dir`, else under the shipped prompts.

        Never raises for what is in the files: `problems` says it, `get` and `capabilities` tell it.
        """
        directory = shipped_prompts() if prompts_dir is None else Path(prompts_dir).expanduser()
        agents: dict[str, AgentDefinition] = {}
        problems: dict[str, str] = {}
        for name, path in _files(directory):
            try:
                _refuse_twin(name, path, {*agents, *problems})
                agents[name] = _read(name, path, directory, groups)
            except DefinitionError as error:
                agents.pop(name, None)
                problems[name] = str(error)
        return cls(directory, *_checked_spawns(agents, problems, directory))

    def get(self, name: str) -> AgentDefinition:
        """Raises LookupError with a sentence: there is no such agent, or its file is broken."""
        if name in self.agents:
            return self.agents[name]
        if name in self.problems:
            raise LookupError(f"The agent {name!r} cannot be used: {self.problems[name]}")
        raise LookupError(f"There is no agent {name!r}{suggestion(name, self.agents)}")

    def names(self) -> tuple[str, ...]:
        """The agents that can be used, in alphabetical order."""
        return tuple(sorted(self.agents))

    def capabilities(self) -> tuple[Capability, ...]:
        """Every agent that has a file, the broken ones with their problem."""
        usable = [Capability(name=name, description=agent.description) for name, agent in self.agents.items()]
        broken = [Capability(name=name, problem=problem) for name, problem in self.problems.items()]
        return tuple(sorted((*usable, *broken), key=lambda capability: capability.name))


def shipped_prompts() -> Path:
    """The prompts of this installation: inside the package when it came as a wheel, else beside it in the checkout."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "_prompts"
    return packed if packed.is_dir() else package.parent / "prompts"


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    yield MASTER, directory / MASTER / _FILE
    subagents = directory / "subagent"
    if subagents.is_dir():
        for folder in sorted(subagents.iterdir()):
            if folder.is_dir() and not folder.name.startswith((".", "_")):
                yield folder.name, folder / _FILE


def _refuse_twin(name: str, path: Path, known: Collection[str]) -> None:
    if name in known:
        raise DefinitionError(str(path), f"two files define the agent {name!r}; rename or remove one of them")


def _read(name: str, path: Path, directory: Path, groups: GroupTable) -> AgentDefinition:
    label = str(path)
    try:
        if not path.is_file():
            raise DefinitionError(
                label, f"there is no such file; an agent needs one, and prompts are read from {directory}"
            )
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise DefinitionError(label, f"the file cannot be read: {error.strerror}") from error
    definition = parse_agent(decoded(content, label), label, groups)
    if ignored := _without_effect(definition):
        raise DefinitionError(label, f"{ignored} is not available in this version; leave it out")
    if definition.name != name:
        raise DefinitionError(label, f"the file names its agent {definition.name!r} but lies where {name!r} belongs")
    return definition


def _without_effect(definition: AgentDefinition) -> str | None:
    """A part of the file that this version would not honour; it says so instead of ignoring it."""
    blank = AgentDefinition(name=definition.name)
    if definition.result not in (None, "text"):
        return "result (other than text)"
    parts = ("rules", "permission", "isolation")
    return next((part for part in parts if getattr(definition, part) != getattr(blank, part)), None)


def _checked_spawns(
    agents: Mapping[str, AgentDefinition], problems: Mapping[str, str], directory: Path
) -> tuple[dict[str, AgentDefinition], dict[str, str]]:
    """Agents and problems, those agents moved to the problems that would spawn what does not exist."""
    known = {*agents, *problems}
    usable, broken = dict(agents), dict(problems)
    for name, agent in agents.items():
        missing = next((spawn for spawn in agent.spawns if spawn not in known), None)
        if missing is not None:
            del usable[name]
            broken[name] = f"{directory}: spawns of {name!r} names {missing!r}{suggestion(missing, known)}"
    return usable, broken
