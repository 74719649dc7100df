"""The page's modules, joined into the scripts that are sent: these compress to four fifths of what modules do alone.

It is done when the service starts, so there is no build step. What a browser shows says what stands in the modules,
without what imports them from one another, without `export`, without comments that have a line of their own, and
without the blanks that lines begin with; `squeezing` takes the others. A line of a module must therefore mean the same
with and without those, also inside a template, which passes over a line's end and the blanks about it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from mcc.rules.patterns import Pattern

_IMPORT = Pattern(
    r"^import (?:\{ (?P<names>[^}]*) \}|(?P<default>\w+)) from \"\.(?:\./island)?/(?P<module>[\w-]+)\.js\";$"
)
_WRAPPED_IMPORT = Pattern(r"^import \{\s+([^}]*?),?\s+\} from ", lines=True)
_EXPORT = Pattern(r"^export ((?:const|let|class|function|async) )")
_PACKED_IMPORT = Pattern(r"import\{([^}]*)\}from\"\./([\w-]+)\.js\";")
_PACKED_EXPORT = Pattern(r"export\{([^}]*)\};?\s*$")
_WORD = Pattern(r"\w+")
_PACKED_DEFAULT = Pattern(r"export default ")
_EXPORTED_AGAIN = Pattern(r"^export \{[^}]*\};$")
_DECLARED = Pattern(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)")
_PACKED_TOKEN = Pattern(r"\"(?:[^\"\\]|\\.)*\"|\w+|.", across=True)
_COMMENT = "//"


class NotJoinable(ValueError):
    """The modules cannot be one script; the message names what has to be changed, and where."""


def joined(
    modules: Mapping[str, str], packed: Mapping[str, str] | None = None, before: Mapping[str, str] | None = None
) -> str:
    """The `modules` by name, without `.js`, as one, in the order in which a browser would run them.

    What they import from those that others have `packed` is taken from these, which are run before. `before`: modules
    of a script that is run before this one, and whose names it shares. All other imports stay, once, at the beginning.
    Raises `NotJoinable` when modules import one another in a circle, under another name,
    or declare a name twice.
    """
    needs: dict[str, list[str]] = {name: [] for name in modules}
    outside: dict[str, None] = {}
    bodies: dict[str, list[str]] = {}
    declarers = {
        declared[1]: module
        for module, source in (before or {}).items()
        for line in source.splitlines()
        if (declared := _DECLARED.match(line))
    }
    for name, source in modules.items():
        bodies[name] = []
        unwrapped = _WRAPPED_IMPORT.sub(lambda wrapped: f"import {{ {' '.join(wrapped[1].split())} }} from ", source)
        for line in unwrapped.splitlines():
            if line.startswith("import "):
                _take_import(name, line, needs, outside, packed or {}, before or {})
            elif not line.lstrip().startswith(_COMMENT) and not _EXPORTED_AGAIN.match(line):
                bodies[name].append(_EXPORT.sub(lambda exported: str(exported[1]), line))
        for line in bodies[name]:
            if (declared := _DECLARED.match(line)) and (other := declarers.setdefault(declared[1], name)) != name:
                raise NotJoinable(f"{name} and {other} both declare {declared[1]}")
    lines = (line.lstrip() for name in _in_order(needs) for line in bodies[name] if line.strip())
    return "\n".join((*outside, *lines)) + "\n"


def unpacked(packed: Mapping[str, str], modules: Mapping[str, str]) -> str:
    """Modules that others have packed, each as an object of what it exports, under its name with a dollar before.

    Of what it exports, only what these `modules` or others of them name.
    """
    named = {word for source in modules.values() for word in _WORD.findall(source)}
    taken = (names[1] for source in packed.values() for names in _PACKED_IMPORT.finditer(source))
    named.update(name.partition(" as ")[0] for names in taken for name in names.split(","))
    needs = {name: [needed[2] for needed in _PACKED_IMPORT.finditer(source)] for name, source in packed.items()}
    return "".join(f"const ${name}=(()=>{{{_as_function(packed[name], named)}}})();\n" for name in _in_order(needs))


def _as_function(source: str, wanted: Set[str]) -> str:
    """The body of a function that answers what the module exports at its end, or by default."""
    body = _PACKED_IMPORT.sub(lambda said: f"const{{{said[1].replace(' as ', ':')}}}=${said[2]};", source)
    named = _PACKED_EXPORT.search(body)
    if named is None:
        return f"{_PACKED_DEFAULT.sub('const $default=', body)}\nreturn{{default:$default}}"
    exported = [
        (name or inside, inside) for inside, _, name in (each.partition(" as ") for each in named[1].split(","))
    ]
    taken = ",".join(f"{name}:{inside}" for name, inside in exported if name in wanted)
    return _without_idle(f"{body[: named.start()]}return{{{taken}}}")


def _without_idle(body: str) -> str:
    """The body of a function without the functions in it that nothing names, as what they export is not wanted."""
    tokens = _PACKED_TOKEN.findall(body)
    while True:
        named = Counter(token for before, token in pairwise(("", *tokens)) if before != ".")
        idle = next((span for name, span in _functions(tokens) if named[name] == 1), None)
        if idle is None:
            return "".join(tokens)
        del tokens[idle]


def _functions(tokens: Sequence[str]) -> Iterator[tuple[str, slice]]:
    """The declared functions that are in no other: the name of each, and where it stands."""
    depth, begun = 0, None
    for index, token in enumerate(tokens):
        if token == "function" and depth == 0 and tokens[index - 1 : index] in ([], [";"], ["}"]):
            begun = index
        depth += (token == "{") - (token == "}")
        if token == "}" and depth == 0 and begun is not None:
            yield tokens[begun + 2], slice(begun, index + 1)
            begun = None


def _in_order(needs: Mapping[str, Iterable[str]]) -> Sequence[str]:
    """Each after all that it needs, which come in the order in which it names them."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise NotJoinable(f"these modules import one another: {' → '.join(error.args[1])}") from error
    order: dict[str, None] = {}

    def add(name: str) -> None:
        for needed in needs[name]:
            add(needed)
        order.setdefault(name)

    needed_by_none = set(needs).difference(*needs.values())
    for name in sorted(needed_by_none):
        add(name)
    return tuple(order)


def _take_import(
    name: str,
    line: str,
    needs: Mapping[str, list[str]],
    outside: dict[str, None],
    packed: Mapping[str, str],
    before: Mapping[str, str],
) -> None:
    """Note what the line imports: from another module of ours, from what was `packed`, or from `outside`."""
    said = _IMPORT.match(line)
    if said is None:
        raise NotJoinable(f'{name} imports otherwise than by `import {{ … }} from "./module.js";`: {line}')
    module, names = said["module"], said["names"]
    if module in packed:
        taken = names or f"default: {said['default']}"
        outside[f"const {{ {taken} }} = ${module};"] = None
    elif module not in needs and module not in before:
        outside[line] = None
    elif names is None or " as " in names:
        raise NotJoinable(f"{name} imports under another name, which would be lost: {line}")
    elif module in needs:
        needs[name].append(module)
