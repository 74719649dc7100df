"""A tool as a drone registers it: what people, and agent files, see of it."""

from drone.agent.messages import ToolSpec
from drone.agent.permits import effects_of
from mcc.contracts.drones import Capability, ToolState
from mcc.contracts.shape import digest, to_json

BYTES_OF_A_TOKEN = 4


def capability(
    spec: ToolSpec,
    problem: str | None = None,
    *,
    origin: str | None = None,
    server: str | None = None,
    state: ToolState | None = None,
) -> Capability:
    """The first paragraph of the description says what the tool is for. `state` None: as the problem tells it."""
    return Capability(
        name=spec.name,
        description=spec.description.partition("\n\n")[0],
        problem=problem,
        origin=origin,
        server=server,
        group=spec.group,
        effects=effects_of(spec),
        digest=f"sha256:{digest(spec.definition)}",
        tokens=tokens(spec),
        state=state or ("broken" if problem else "usable"),
    )


def tokens(spec: ToolSpec) -> int:
    """About what a model is asked to read of the tool with each question."""
    told = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return -(-len(to_json(told)) // BYTES_OF_A_TOKEN)
