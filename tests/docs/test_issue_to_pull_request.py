"""The page "From an issue to a pull request", walked from top to bottom: its commands, and nothing else."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.docs.shop import Shop, opened_shop
from tests.drone.delivery.forge import TOKEN
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-issue-to-pull-request.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(PAGE.read_text("utf-8"))
LEFT_OUT = ("make demo", "gh extension")
"""How blocks begin that need a package index or the real forge."""

SCRIPT: Sequence[Mapping[str, Any]] = [
    {
        "match": "Totals are off by one",
        "replies": [
            {
                "tool_calls": [
                    {
                        "name": "edit_file",
                        "arguments": {"path": "totals.py", "old": "rows[:-1]", "new": "rows"},
                    }
                ]
            },
            {"text": "The last row is counted now."},
        ],
    },
    {"match": "", "replies": [{"text": "Nothing to do."}]},
]


def here(shop: Shop, text: str) -> str:
    """What the page says, for the forge and the ports of this test."""
    for theirs, ours in (
        ("https://github.com", shop.address),
        ('kind = "github"\n', f'kind = "github"\n{shop.forge_lines}'),
        ("github_pat_of_your_own", TOKEN),
        (":8420", f":{shop.port}"),
        ("mcc up --detach", "mcc up --detach --no-flower"),
    ):
        text = text.replace(theirs, ours)
    return text


def test_the_commands_of_the_page_end_in_a_pushed_branch_and_an_opened_request(tmp_path: Path) -> None:
    with opened_shop(tmp_path) as shop:
        shop.forge.threads["issues/7"] = []
        shop.configure(here(shop, next(block for kind, block in BLOCKS if kind == "toml")), SCRIPT)
        commands = [block for kind, block in BLOCKS if kind == "sh" and not block.startswith(LEFT_OUT)]
        printed = shop.run(here(shop, "".join(commands)))
        assert '"verdict":"placed"' in printed, printed
        (request,) = shop.forge.requests.values()
        assert request["head"] == shop.branch() and request["state"] == "open"
        assert request["title"] == "Solve this issue, with a test: Totals are off by one"
        assert shop.served.git("log", "-1", "--format=%s", shop.branch()) == "Solve this issue, with a test:"
        assert "The last row is counted now." in request["body"]
        assert "sum(rows)" in shop.served.git("show", f"{shop.branch()}:totals.py")
        assert "/pull/1" in printed
        assert TOKEN not in printed
        until(lambda: shop.forge.threads["issues/7"], "the answer as a comment")
