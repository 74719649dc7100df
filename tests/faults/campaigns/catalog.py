"""The list of all campaigns, and of what none of them does, with the reason."""

from collections.abc import Mapping

from tests.faults.campaigns.anything import anything
from tests.faults.campaigns.background import killed_with_background
from tests.faults.campaigns.clocks import HOUR, NEARLY_SECONDS, clocks_are_wrong
from tests.faults.campaigns.commands import commands_do_harm, workspaces
from tests.faults.campaigns.controls import cancelled_everywhere
from tests.faults.campaigns.database import database_suffers, own_server
from tests.faults.campaigns.disks import SMALL_DISKS, disks_fail, small_disks
from tests.faults.campaigns.drones import (
    frozen_for_a_moment,
    frozen_for_long,
    killed_everywhere,
    poisoned,
    told_to_stop,
)
from tests.faults.campaigns.models import bad_calls, model_refuses, streams_break
from tests.faults.campaigns.one_repository import one_repository, repositories
from tests.faults.campaigns.poison import poisoned_checkout, poisoned_repository
from tests.faults.campaigns.redis import redis_links_suffer, redis_suffers, strangers_write
from tests.faults.campaigns.services import services_die, streams_are_cut
from tests.faults.campaigns.stage import Campaign
from tests.faults.checker import INVARIANTS
from tests.faults.plan import Plan

FEW = Plan(drones=2)
ALONE = Plan(drones=1, slots=16)
REDIS_LINKS = ("drone-redis", "mcc-redis")
DATABASE_LINKS = ("drone-pg", "mcc-pg")
PRODUCTS_LEASE = Plan(drones=3, lease_seconds=12.0, renew_seconds=1.0, judged={"false_takeovers": 0})
JUMPING = Plan(drones=3, lease_seconds=5.0, renew_seconds=0.5, judged={"clock_seconds": 2 * HOUR + NEARLY_SECONDS})
PATIENT = Plan(drones=2, judged={"cancel_seconds": 6.0})
LINKED = Plan(drones=3, links=REDIS_LINKS)
ALL_LINKS = Plan(drones=2, links=DATABASE_LINKS)
EVERY_LINK = Plan(links=(*REDIS_LINKS, *DATABASE_LINKS))
WITHOUT_TIMES = tuple(name for name in INVARIANTS if name not in ("I11", "I14", "I15", "I16"))
"""What can be judged where entries are dated by wrong clocks."""

CAMPAIGNS: Mapping[str, Campaign] = {
    one.name: one
    for one in (
        Campaign("C1", "kill -9 at every place of a drone's life", killed_everywhere, Plan(drones=3)),
        Campaign("C2", "orders take all memory, one kills its drones", poisoned, Plan(drones=2, slots=8)),
        Campaign("C3", "SIGTERM, SIGKILL after 15 s", told_to_stop, Plan(drones=3)),
        Campaign("C4", "SIGSTOP beyond the lease, SIGCONT", frozen_for_long, Plan(drones=3)),
        Campaign("C5", "SIGSTOP within the lease, CPU hogs on every core", frozen_for_a_moment, PRODUCTS_LEASE),
        Campaign("C6", "Redis ended, emptied, silent, full, read-only", redis_suffers, FEW),
        Campaign("C7", "links to Redis reset, black-holed, half open, sliced, slow", redis_links_suffer, LINKED),
        Campaign("C8", "garbage, repeated, stale and giant messages", strangers_write, FEW),
        Campaign(
            "C9",
            "the database locked, cut off, ended, wrongly reported",
            database_suffers,
            ALL_LINKS,
            around=own_server,
        ),
        Campaign("C10", "disks full, and refusing all writes", disks_fail, SMALL_DISKS, around=small_disks),
        Campaign("C11", "model servers refuse, stall, limit", model_refuses, FEW),
        Campaign("C12", "streams of models cut anywhere, and malformed", streams_break, FEW),
        Campaign("C13", "models call tools wrongly", bad_calls, FEW),
        Campaign(
            "C14",
            "commands hang, hide, multiply, flood and fill; their drone is killed",
            commands_do_harm,
            Plan(drones=2, slots=16),
            around=workspaces,
        ),
        Campaign("C16", "clocks differ by an hour, and jump", clocks_are_wrong, JUMPING, promises=WITHOUT_TIMES),
        Campaign("C17", "viewers cut, slow, idle, saying nonsense", streams_are_cut, FEW),
        Campaign("C18", "services killed while they accept, races for a key", services_die, FEW),
        Campaign("C19", "cancel and pause at every place, and without Redis", cancelled_everywhere, PATIENT),
        Campaign(
            "C21",
            "a poisoned repository: tools without end, an interpreter that is held",
            poisoned_repository,
            Plan(drones=3, slots=16),
            around=poisoned_checkout,
        ),
        Campaign("C22", "the same with a single drone", poisoned_repository, ALONE, around=poisoned_checkout),
        Campaign(
            "C23",
            "one repository, many orders that write: killed, frozen, handed back, asked for, reverted",
            one_repository,
            Plan(drones=3),
            around=repositories,
        ),
        Campaign(
            "C24", "kill -9 while subagents work in the background", killed_with_background, Plan(drones=3, slots=8)
        ),
        Campaign("C20", "everything at random", anything, EVERY_LINK, around=own_server),
    )
}

LEFT_OUT: Mapping[str, str] = {
    "C10, quotas": "a quota is met as a full disk is; no file system with one is made",
    "C12, giants": "no gzip bomb and no delta of 20 MB: tests/drone/models holds the limits of one reply",
    "C14, full size": "1 GB of output and a million files: python -m tests.faults.commands DIRECTORY --whole",
    "C15": "one crew meets all faults of MCP servers at once: tests/faults/test_tool_servers.py, in every `make test`",
    "C20, disks and jumping clocks": "both would need the machine's own for hours; C10 and C16 do them by themselves",
}
"""What of the list of faults no campaign does, and why."""
