"""The page on CEL: what rules may use, held against the specification's own tests."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcc.rules.errors import MAX_STEPS
from mcc.rules.expression import MAX_MACRO_NESTING, MAX_MACROS, MAX_NESTING
from mcc.rules.functions import FUNCTIONS, MAX_PATTERN, METHODS, Function
from mcc.rules.kinds import ANY, MAX_VALUES, Kinds, cel_names
from mcc.rules.node import MACROS
from mcc.rules.syntax import MAX_CHARACTERS
from scripts import cel_suite
from scripts.cel_suite import EXCEPTIONS, Verdict
from scripts.reference.markdown import code, table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cel.md"

EXTENSIONS: Mapping[str, str] = {
    "bindings_ext": "`cel.bind`",
    "block_ext": "`cel.block`",
    "encoders_ext": "`base64.encode`, `base64.decode`",
    "macros2": "macros of two variables, `transformList`, `transformMap`",
    "math_ext": "`math.greatest`, `math.abs` and others",
    "optionals": "`optional.of`, `x.?key`, `[?x]`",
    "string_ext": "`charAt`, `split`, `replace`, `format` and others",
    "proto2_ext": "extension fields of protobuf",
}
_MESSAGES = "protobuf messages, enums and wrappers, names in containers, functions that nobody declares, deduced types"


def page() -> Iterator[str]:
    """The page as it follows from a run of the suite; where there is no suite, as it stands."""
    if cel_suite.missing() is not None:
        yield PAGE.read_text("utf-8").partition("\n\n")[2].rstrip("\n")
        return
    verdicts = list(cel_suite.run())
    yield from ("# CEL", "")
    yield "What the expressions of [rules](../how-to/write-rules.md) may use, and how that was found: by the tests of"
    yield f"the specification itself (npm `@bufbuild/cel-spec` {cel_suite.VERSION}), within the bounds that rules have."
    yield ""
    yield from _functions()
    yield from _core(verdicts)
    yield from _others(verdicts)
    yield from _bounds()


def _functions() -> Iterator[str]:
    yield from (
        "## Functions",
        "",
        "A `zone`, such as `Europe/Berlin` or `+05:30`, may be left out: then it is UTC.",
        "",
    )
    methods = ((f"x.{name}({', '.join(_places(one)[1:])})", one) for name, one in METHODS.items())
    functions = ((f"{name}({', '.join(_places(one))})", one) for name, one in FUNCTIONS.items())
    rows = ((code(written), _takes(one), _named(one.gives)) for written, one in (*functions, *methods))
    yield from table(("written", "takes", "gives"), rows)
    yield "`quoted`, `read_lines` and `same_path` are about what the agent and its subagents read:"
    yield "[write rules](../how-to/write-rules.md#what-was-read)."
    yield from ("", "## Macros", "")
    yield "Over the items of a list, or the keys of a map; null is an empty list."
    yield ""
    yield from table(("written", "gives"), ((code(one.usage), _named(one.gives)) for one in MACROS.values()))
    yield from ("`has(x.key)` is true when the key is there and not null, and false when `x` itself is missing.", "")


def _places(function: Function) -> tuple[str, ...]:
    return function.called or ("x", "zone" if function.optional else "y")[: len(function.takes)]


def _takes(function: Function) -> str:
    return ", ".join(_named(kinds) for kinds in function.takes)


def _named(kinds: Kinds) -> str:
    return "anything" if kinds == ANY else cel_names(kinds)


def _core(verdicts: list[tuple[cel_suite.SuiteTest, Verdict]]) -> Iterator[str]:
    counted = [(test, verdict) for test, verdict in verdicts if test.name in cel_suite.core()]
    every = Counter(test.section for test, _ in counted)
    passed = Counter(test.section for test, verdict in counted if verdict is Verdict.PASSED)
    share = 100 * passed.total() / every.total()
    yield from ("## The core", "")
    yield f"{passed.total():,} of {every.total():,} tests of the standard language pass, {share:.1f} %."
    yield ""
    yield from table(("section", "tests", "pass"), ((one, str(every[one]), str(passed[one])) for one in every))
    yield from ("What does not pass:", "")
    yield from table(("test", "why"), ((code(name), why) for name, why in EXCEPTIONS.items()))


def _others(verdicts: list[tuple[cel_suite.SuiteTest, Verdict]]) -> Iterator[str]:
    others = [(test, verdict) for test, verdict in verdicts if test.name not in cel_suite.core()]
    grouped = Counter(EXTENSIONS.get(test.section, _MESSAGES) for test, _ in others)
    passed = Counter(EXTENSIONS.get(test.section, _MESSAGES) for test, verdict in others if verdict is Verdict.PASSED)
    yield from ("## Beyond the core", "")
    yield "Extensions and protobuf are not available. What needs them is refused when the rule is declared; those that"
    yield "pass need none of it, or are about errors."
    yield ""
    rows = ((name, str(grouped[name]), str(passed[name])) for name in (*EXTENSIONS.values(), _MESSAGES))
    yield from table(("what", "tests", "pass"), rows)


def _bounds() -> Iterator[str]:
    yield from ("## Bounds", "")
    rows = (
        ("characters of an expression", f"{MAX_CHARACTERS:,}"),
        ("levels of brackets, calls and operators", f"{MAX_NESTING}"),
        ("macros, and within one another", f"{MAX_MACROS}, {MAX_MACRO_NESTING}"),
        ("characters of a regular expression (RE2)", f"{MAX_PATTERN}"),
        ("steps of one round of checks", f"{MAX_STEPS:,}"),
        ("values that rules may look at", f"{MAX_VALUES:,}"),
    )
    yield from table(("what", "at most"), rows)
    yield "A time lies between the years 1 and 9999; a duration is at most 292 years. Kinder than the specification:"
    yield "null is an empty list, and int and double mix in sums, because JSON has one kind of number."
