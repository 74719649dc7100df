"""What each mode adds to the permission of an order, in the same grammar as everybody else's."""

from collections.abc import Mapping

from mcc.contracts.permission import Mode, Permission, PermissionRule
from mcc.permission.layers import Layer

_READ_ONLY = "The order is in mode plan, in which nothing is changed: read, and say what should be done."
_NO_WRITING = "The order is in mode test, in which no file is written and nothing is committed: run tests, and report."

MODES: Mapping[Mode, Permission] = {
    "develop": {},
    "plan": {"*": (PermissionRule(when='!(effects in ["none", "read"])', then="deny", message=_READ_ONLY),)},
    "build": {"git_commit": "ask"},
    "test": {
        "workspace_write": (PermissionRule(then="deny", message=_NO_WRITING),),
        "git_write": (PermissionRule(then="deny", message=_NO_WRITING),),
    },
    "ship": {
        "*": (PermissionRule(when='effects == "irreversible"', then="ask"),),
        "git_write": (PermissionRule(when='effects == "irreversible"', then="ask"), PermissionRule(then="allow")),
    },
}


def layer_of(mode: Mode) -> Layer:
    return Layer("mode", MODES[mode])
