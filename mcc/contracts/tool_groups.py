"""Tool groups: names that stand for several tools in agent files and permission rules."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

GroupTable: TypeAlias = Mapping[str, Collection[str]]
"""Tool names by group."""

_DIFF = ("git_status", "git_diff", "git_show")
_SHELL = ("run_shell", "shell_jobs")

TOOL_GROUPS: GroupTable = {
    "environment_read": ("environment_detect",),
    "workspace_read": ("list_files", "find_files", "search_text", "read_file", "outline", "read_artifact"),
    "workspace_write": ("write_file", "edit_file", "apply_patch", "move_file", "delete_file"),
    "diff_read": _DIFF,
    "git_read": (*_DIFF, "git_log", "git_blame", "git_branches", "git_ls_files"),
    "git_write": ("git_add", "git_commit"),
    "shell_read": _SHELL,
    "shell_write": _SHELL,
    "web_read": ("web_fetch", "web_search"),
    "memory_read": ("memory_list", "memory_read", "memory_search"),
    "memory_write": ("memory_write", "memory_delete"),
    "history_read": ("history_search", "history_read"),
    "plans_read": ("plan_list", "plan_read"),
    "plans_write": ("plan_write",),
    "tasks_read": ("task_list",),
    "tasks_write": ("task_create", "task_update"),
    "rules_skills_read": ("rules_list", "rules_read", "skills_list", "skills_read"),
    "document_read": ("read_document", "describe_component"),
    "document_write": ("set_value", "set_metadata", "add_child", "remove_child", "move_child"),
    "mcp": (),
    "deliver": (),
    "coordination": ("ask_user",),
    "delegation": (
        "subagent",
        "subagents_run",
        "subagent_send",
        "subagent_status",
        "subagent_wait",
        "subagent_cancel",
        "subagent_steer",
    ),
    "finish": ("submit_result", "validate", "done"),
}
"""Every group, with its tools that have a fixed name. A drone may offer fewer of them."""


def group_of(tool: str) -> str:
    """The first group that contains the tool; "" when none does."""
    return next((group for group, tools in TOOL_GROUPS.items() if tool in tools), "")
