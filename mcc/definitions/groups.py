"""This room is for tool groups: the names under which an agent file may ask for several tools at once."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

GroupTable: TypeAlias = Mapping[str, Collection[str]]
"""The names of the tools in each group."""

_DIFF = ("git_status", "git_diff", "git_show")

TOOL_GROUPS: GroupTable = {
    "environment_read": ("environment_detect",),
    "workspace_read": ("list_files", "find_files", "search_text", "read_file", "read_artifact"),
    "workspace_write": ("write_file", "edit_file", "apply_patch", "move_file", "delete_file"),
    "diff_read": _DIFF,
    "git_read": (*_DIFF, "git_log", "git_branches", "git_ls_files"),
    "git_write": ("git_add", "git_commit"),
    "shell_read": ("run_shell",),
    "shell_write": ("run_shell",),
    "web_read": ("web_fetch", "web_search"),
    "memory_read": ("memory_list", "memory_read", "memory_search"),
    "memory_write": ("memory_write", "memory_delete"),
    "plans_read": ("plan_list", "plan_read"),
    "plans_write": ("plan_write",),
    "tasks_read": ("task_list",),
    "tasks_write": ("task_create", "task_update"),
    "rules_skills_read": ("rules_list", "rules_read", "skills_list", "skills_read"),
    "document_read": (),
    "document_write": (),
    "mcp": (),
    "coordination": ("ask_user",),
    "delegation": ("subagent", "subagents_run", "subagent_send"),
    "finish": ("submit_result", "validate", "done"),
}
"""Every group that exists, with the tools that have a fixed name; what a drone really has may be less."""


def expanded(names: Iterable[str], groups: GroupTable = TOOL_GROUPS) -> frozenset[str]:
    """The tool names that `names` (groups and tool names) stand for."""
    return frozenset(tool for name in names for tool in groups.get(name, (name,)))


def known_names(groups: GroupTable) -> frozenset[str]:
    return frozenset(groups) | {tool for tools in groups.values() for tool in tools}
