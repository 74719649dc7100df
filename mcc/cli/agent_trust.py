"""Agreeing to the agent files of a workspace: what each wants beyond adding an agent, and what was agreed to so far."""

from collections.abc import Sequence
from pathlib import Path

from mcc.cli.agent_files import installed_here, workspace_files
from mcc.configuration.agents import KIND, trust
from mcc.configuration.file import ConfigProblem, content_of
from mcc.configuration.trust import TrustStore, digest_of
from mcc.contracts.agents import INHERIT
from mcc.definitions.errors import DefinitionError
from mcc.definitions.files import place_of
from mcc.definitions.scopes import Agents, with_workspace


def agreed(store: TrustStore, root: Path, prompts_dir: Path | None) -> tuple[dict[str, str], Sequence[DefinitionError]]:
    """Trust the usable agent files of `root` as they are now: what each may do from now on, and why others are not.

    Raises `TrustProblem`.
    """
    files = workspace_files(root)
    before = installed_here(prompts_dir)
    known = with_workspace(before, files, trusted={file.name for file in files})
    refused = {error.source for error in known.refused}
    contents = {place_of(file.name): file for file in files if file.source not in refused}
    trust(store, root, {path: file.content for path, file in contents.items()})
    return {path: _may(file.name, before, known) for path, file in contents.items()}, known.refused


def _may(name: str, before: Agents, known: Agents) -> str:
    rights = [f"replaces the agent {name!r}"] if name in before.usable else [f"adds the agent {name!r}"]
    model = known.usable[name].model
    if model not in (INHERIT, before.usable[name].model if name in before.usable else INHERIT):
        rights.append(f"chooses the model {model!r}")
    return " and ".join(rights)


def states(store: TrustStore) -> list[tuple[str, str]]:
    """Every file that was trusted, and whether it is still what it was then. Raises `TrustProblem`."""
    return [(path, _state(Path(path), digest)) for path, digest in sorted(store.digests(KIND).items())]


def _state(path: Path, digest: str) -> str:
    try:
        return "trusted" if digest_of(content_of(path)) == digest else "changed since: not trusted"
    except ConfigProblem:
        return "changed since: not trusted"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
