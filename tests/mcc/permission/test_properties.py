"""Invariants of judging: another deny never allows more, layer order does not matter, grants beat no deny."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcc.contracts.permission import Permission, PermissionRule, SavedRule, Word
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import STRICTNESS, Layer

TOOLS = {
    "git_commit": "git_write",
    "git_diff": "diff_read",
    "run_shell": "shell_write",
    "send": "",
    "read_file": "workspace_read",
}
KEYS = [
    "*",
    "**",
    "git_*",
    "git_c*",
    "?end",
    "run_*",
    *TOOLS,
    "git_write",
    "git_read",
    "diff_read",
    "shell_write",
    "other",
]
CONDITIONS = [
    "true",
    "false",
    'args.to == "prod"',
    "args.count > 3",
    'argv[0] == "git"',
    'argv.exists(a, a == "push")',
    "size(argv) > 1",
    "parts > 1",
    'effects == "irreversible"',
    "depth > 0",
    "not.known",
]
words = st.sampled_from(["allow", "ask", "deny"])
rules = st.builds(PermissionRule, when=st.none() | st.sampled_from(CONDITIONS), then=words)
permissions = st.dictionaries(
    st.sampled_from(KEYS), words | st.lists(rules, min_size=1, max_size=4).map(tuple), max_size=5
)
names: Any = st.sampled_from(["operator", "mode", "agent", "ancestor", "order"])
layers = st.lists(st.builds(Layer, names, permissions, st.booleans()), max_size=4)
commands = st.sampled_from(
    ["git push", "make && git push", "git $(x)", "$X push", "pytest", "eval git push", 'a "', "ls *"]
)
asked = st.builds(
    lambda tool, command, to, count, effects, depth: PermissionRequest(
        tool, TOOLS[tool], effects, {"command": command, "to": to, "count": count}, depth=depth
    ),
    st.sampled_from(list(TOOLS)),
    commands,
    st.sampled_from(["prod", "test"]),
    st.sampled_from([1, 5, "many"]),
    st.sampled_from(["none", "read", "write", "execute", "network", "irreversible"]),
    st.integers(0, 2),
)
grants = st.lists(
    st.builds(SavedRule, key=st.sampled_from(KEYS), when=st.none() | st.sampled_from(CONDITIONS)), max_size=3
)


def strictness(asked: PermissionRequest, layers: list[Layer], grants: list[SavedRule]) -> int:
    return STRICTNESS[judge(asked, layers, grants).word]


def denying(permission: Permission, key: str, when: str | None) -> Permission:
    """The permission with one more deny: for a new key, or before all rules of an existing one."""
    rule = PermissionRule(when=when, then="deny")
    said = permission.get(key)
    if said is None:
        return {**permission, key: (rule,)}
    return {**permission, key: (rule, *((PermissionRule(then=said),) if isinstance(said, str) else said))}


@settings(max_examples=150)
@given(asked, layers, grants, st.sampled_from(KEYS), st.none() | st.sampled_from(CONDITIONS), st.integers(0, 3))
def test_a_deny_that_is_added_anywhere_never_widens(
    asked: PermissionRequest, layers: list[Layer], grants: list[SavedRule], key: str, when: str | None, place: int
) -> None:
    old = layers[place] if place < len(layers) else Layer("order", {})
    new = Layer(old.name, denying(old.permission, key, when), old.consents)
    more = [*layers[:place], new, *layers[place + 1 :]]
    assert strictness(asked, more, grants) >= strictness(asked, layers, grants)


@settings(max_examples=50)
@given(asked, layers, grants, st.randoms(use_true_random=False))
def test_the_order_of_layers_does_not_matter(
    asked: PermissionRequest, layers: list[Layer], grants: list[SavedRule], random: Any
) -> None:
    shuffled = random.sample(layers, len(layers))
    assert judge(asked, shuffled, grants).word == judge(asked, layers, grants).word


@settings(max_examples=50)
@given(asked, layers, grants)
def test_a_grant_beats_no_deny_and_never_makes_stricter(
    asked: PermissionRequest, layers: list[Layer], grants: list[SavedRule]
) -> None:
    without, granted = strictness(asked, layers, []), strictness(asked, layers, grants)
    assert granted <= without
    assert without < STRICTNESS["deny"] or granted == without


@settings(max_examples=50)
@given(asked, layers, names, permissions)
def test_a_further_layer_widens_only_what_nobody_spoke_of(
    asked: PermissionRequest, layers: list[Layer], name: Any, permission: Permission
) -> None:
    before = judge(asked, layers)
    after = judge(asked, [*layers, Layer(name, permission)])
    assert before.why.layer == "default" or STRICTNESS[after.word] >= STRICTNESS[before.word]
    narrowing = judge(asked, [*layers, Layer(name, permission, consents=False)])
    assert STRICTNESS[narrowing.word] >= STRICTNESS[before.word]


@settings(max_examples=50)
@given(asked, layers, grants)
def test_a_ruling_says_why_and_what_to_do(
    asked: PermissionRequest, layers: list[Layer], grants: list[SavedRule]
) -> None:
    ruling = judge(asked, layers, grants)
    assert bool(ruling.message) is (ruling.word != "allow")
    assert ruling.would_save is None or ruling.word == "ask"
    if ruling.would_save is not None:
        assert judge(asked, layers, [ruling.would_save]).word == "allow"


def test_words_are_ranked_from_the_mildest_to_the_strictest() -> None:
    ranked: list[Word] = sorted(STRICTNESS, key=STRICTNESS.__getitem__)
    assert ranked == ["allow", "ask", "deny"]
