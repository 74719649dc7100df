"""Tools as a drone registers them: name, group, effects, digest and size in tokens."""

from drone.agent.ports.permits import effects_of, is_background_safe
from mcc.contracts.drones import Capability, ToolState
from mcc.contracts.shape import digest, to_json
from mcc.transcript.messages import ToolSpec

BYTES_OF_A_TOKEN = 4


def capability(
    spec: ToolSpec,
    problem: str | None = None,
    *,
    origin: str | None = None,
    server: str | None = None,
    state: ToolState | None = None,
) -> Capability:
    """What a drone registers of a tool; its description is the first paragraph of the spec's.

    `state` None: `broken` if there is a problem, else `usable`.
    """
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
        background_safe=is_background_safe(spec),
        state=state or ("broken" if problem else "usable"),
    )


def tokens(spec: ToolSpec) -> int:
    """An estimate of the tokens that the tool adds to each model request: bytes of its JSON by four, rounded up."""
    shown = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return -(-len(to_json(shown)) // BYTES_OF_A_TOKEN)
