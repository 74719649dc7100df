"""Generation of documents from blueprints: a gated agent fills in each node that needs it, from the root down.

    report = await generate(document, model=model)
    text = await run_subagent(model, preamble, tools, validation, task)

Names are imported when first used, so that importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drone.generation.library import GenerationReport as GenerationReport
    from drone.generation.library import generate as generate
    from drone.generation.subagent import SubagentError as SubagentError
    from drone.generation.subagent import run_subagent as run_subagent

_HOMES = {
    "GenerationReport": "drone.generation.library",
    "generate": "drone.generation.library",
    "SubagentError": "drone.generation.subagent",
    "run_subagent": "drone.generation.subagent",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"drone.generation has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
