"""The table of hostile inputs: by which tests each of its rows is tried. A test that is renamed is missed here."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT, imports_of, modules

HERE = "tests/hostile"
DOOR, GUARD = f"{HERE}/test_door.py", "tests/mcc/api/test_guarded_door.py"
WRITING, SANDBOX, SHELL = (f"{HERE}/test_rows_{one}.py" for one in ("writing", "sandbox", "shell"))
GIT, WEB, NETWORK, MCP = (f"{HERE}/test_rows_{one}.py" for one in ("git", "web", "network", "mcp"))
PERMISSION = f"{HERE}/test_rows_permission.py"
PATHS = "tests/drone/sandbox/test_paths_stay_inside.py"

ROWS: Mapping[int, tuple[str, ...]] = {
    1: (f"{PATHS}::test_a_path_that_leads_out_is_denied", f"{WRITING}::test_row_1_a_path_that_leads_out_is_denied"),
    2: (f"{PATHS}::test_a_directory_whose_name_only_begins_like_the_root_is_outside", f"{WRITING}::test_row_2"),
    3: (f"{PATHS}::test_a_link_that_leads_outside_is_denied", f"{WRITING}::test_row_3_and_5"),
    4: (f"{PATHS}::test_a_link_swapped_in_during_the_open_never_leads_outside", f"{WRITING}::test_row_4"),
    5: (f"{WRITING}::test_row_3_and_5",),
    7: (f"{WRITING}::test_row_7_and_9", f"{SANDBOX}::test_rows_7_and_9", f"{GIT}::test_row_7"),
    9: (f"{WRITING}::test_row_7_and_9", f"{SANDBOX}::test_rows_7_and_9"),
    10: (f"{SANDBOX}::test_row_10", f"{PATHS}::test_magic_links_are_not_followed"),
    11: (f"{PATHS}::test_only_regular_files_are_read_and_a_pipe_does_not_hang", f"{WRITING}::test_row_11"),
    12: (f"{PATHS}::test_a_nul_is_denied", f"{WRITING}::test_row_12", f"{HERE}/test_fuzzed_parsers.py::test_no_path"),
    13: (f"{WRITING}::test_row_13",),
    14: (f"{HERE}/test_every_row.py::test_row_14",),
    16: ("tests/drone/tools/test_search_engines_agree.py::test_ripgrep_reads_neither_its_configuration_nor_options",),
    18: (f"{HERE}/test_planted_injections.py::test_a_model_that_obeys",),
    19: (f"{SHELL}::test_row_19", f"{SANDBOX}::test_row_19"),
    20: (f"{SHELL}::test_row_20", f"{SANDBOX}::test_row_20", f"{PERMISSION}::test_row_20"),
    21: (f"{SHELL}::test_row_21", f"{SANDBOX}::test_row_21"),
    22: (f"{SHELL}::test_row_22", f"{SANDBOX}::test_row_22"),
    23: (f"{SHELL}::test_row_23", f"{SANDBOX}::test_row_23"),
    24: (f"{NETWORK}::test_row_24", f"{SANDBOX}::test_row_24"),
    25: (f"{GIT}::test_row_25", "tests/drone/tools/test_git_runs_nothing.py::test_"),
    27: (f"{GIT}::test_rows_27_and_28", f"{GIT}::test_row_27"),
    28: (f"{GIT}::test_rows_27_and_28",),
    29: ("tests/drone/checkouts/test_", "tests/mcc/api/test_orders_over_http.py::test_a_git_address_is_taken_only"),
    31: (f"{GIT}::test_row_31",),
    32: (f"{GIT}::test_row_32",),
    33: (f"{WEB}::test_row_33",),
    34: (f"{WEB}::test_row_34",),
    35: (f"{WEB}::test_row_35",),
    37: (f"{WEB}::test_row_37",),
    38: (f"{WEB}::test_row_38",),
    39: (f"{NETWORK}::test_row_39", f"{SANDBOX}::test_row_39"),
    40: (f"{SHELL}::test_row_40", f"{HERE}/test_secrets_in_orders.py::test_"),
    41: (f"{SHELL}::test_row_41", f"{HERE}/test_terminal_commands.py::test_whatever_a_tool_says_is_without_commands"),
    42: ("tests/mcc/documents/test_export.py::test_a_page_loads_nothing_runs_nothing_and_leads_nowhere_else",),
    43: ("tests/mcc/test_process_logs.py::test_",),
    45: (
        "tests/drone/worker/test_celery_worker.py::test_a_forged_message_harms_nobody",
        f"{HERE}/test_redis_writers.py::",
    ),
    46: ("tests/mcc/local/test_compose.py::test_the_rights_of_redis_users", f"{HERE}/test_redis_writers.py::test_"),
    47: (
        "tests/mcc/api/test_orders_over_http.py::test_a_bad_query_is_refused",
        "tests/conformance/store/test_notes_of_projects.py::test_no_question_is_a_command",
        "tests/conformance/store/test_keeping_texts.py::test_an_unknown_digest_is_a_key_error",
    ),
    49: (f"{GUARD}::test_nothing_is_told_without_the_token", f"{GUARD}::test_a_guesser_is_slowed_down"),
    50: (f"{GUARD}::test_another_host_name_is_not_answered", f"{DOOR}::test_a_host_header_is_a_host_and_a_port"),
    51: (f"{GUARD}::test_no_site_is_let_in_by_cors", f"{GUARD}::test_a_body_of_another_kind_is_refused"),
    52: ("tests/mcc/api/test_operator_token.py::test_listening_to_others_without_a_chosen_token_is_refused",),
    53: (f"{GUARD}::test_a_forwarded_address_grants_nothing",),
    54: ("tests/mcc/api/test_orders_over_http.py::test_an_order_that_does_not_exist_is_not_found",),
    55: (f"{GUARD}::test_a_body_that_is_too_large_is_refused", f"{GUARD}::test_a_head_that_does_not_end"),
    57: (f"{HERE}/test_every_row.py::test_row_57",),
    59: (f"{WEB}::test_row_59",),
    60: (f"{PERMISSION}::test_row_60", f"{HERE}/test_keys_stay_with_their_provider.py::test_"),
    62: (f"{MCP}::test_row_62",),
    64: (f"{MCP}::test_row_64",),
    65: (f"{MCP}::test_row_65",),
    66: (f"{PERMISSION}::test_row_66", f"{HERE}/test_agent_files_of_a_checkout.py::test_"),
    68: (f"{HERE}/test_flower.py::test_it_does_not_start_in_the_open",),
}


@cache
def named_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name[:5] == "test_")


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_tried_by_tests_that_are_there(row: int) -> None:
    for named in ROWS[row]:
        path, _, begins = named.partition("::")
        files = [ROOT / path] if path.endswith(".py") else sorted(ROOT.glob(f"{path}*.py"))
        found = [name for file in files for name in named_in(file) if name.startswith(begins)]
        assert found, f"there is no {named}"


def test_row_14_nothing_unpacks_an_archive() -> None:
    """There is no tool for archives, and nothing of ours opens one: programs in the sandbox may."""
    for module, path in modules():
        assert not imports_of(path) & {"tarfile", "zipfile"}, module
        assert "unpack_archive" not in path.read_text("utf-8"), module


def test_row_57_nothing_is_uploaded() -> None:
    """No call takes a file: texts come in JSON, and artifacts are kept under the digest of their text."""
    for module, path in modules():
        assert "UploadFile" not in path.read_text("utf-8"), module
