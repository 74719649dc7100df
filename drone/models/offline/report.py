"""Reports of a survey as Markdown sections; every path, count and name comes from tool results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from drone.models.offline.explore import EVERYTHING, ReviewRule, Severity, entry_files, review_rules, started_files
from drone.models.offline.languages import (
    glob_of,
    is_accompanying,
    is_document,
    is_readme,
    is_test,
    language_of,
    languages_of,
)
from drone.models.offline.parts import package_fronts, parts_of, to_read, useful_tests
from drone.models.offline.prose import headings, names_defined, opening_of_readme, own_words, title_of_readme
from drone.models.offline.request import Focus
from drone.models.offline.survey import Survey
from drone.models.offline.tool_output import Hit
from mcc.rules.patterns import Pattern

HONEST = "*The offline model read this by fixed rules; no language model was asked.*"
_MOST_HITS = 6
_MOST_PARTS = 12
_PROSE = (".md", ".rst", ".adoc", ".txt")
_QUOTED = Pattern(r"([\"'][^\"']{0,4})[^\"']*([\"'])")


@dataclass(frozen=True, slots=True)
class Section:
    """`kind`: something found, something else done on the way, or something left open."""

    title: str
    lines: tuple[str, ...]
    severity: Severity = "info"
    kind: Literal["finding", "step", "open"] = "finding"

    def __str__(self) -> str:
        return "\n".join((f"## {self.title}", *self.lines))


def report(known: Survey, focus: Focus) -> str:
    """An explorer's answer; says so if nothing was found."""
    return "\n\n".join([HONEST, *(str(section) for section in sections(known, focus))])


def sections(known: Survey, focus: Focus) -> Sequence[Section]:
    if not known.files and not known.pages:
        lines = tuple(f"- {problem}" for problem in known.problems)
        lines = lines or ("- The workspace has no files that the tools would list.",)
        return [Section("Layout", lines, kind="open")]
    found: list[Section] = []
    if focus.content:
        found.append(Section("Purpose", tuple(_purpose(known))))
    if focus.structure:
        found.append(Section("Layout", tuple(_layout(known))))
        found.append(Section("Build", tuple(_build(known))))
        found.append(Section("Entry points", tuple(_entries(known))))
        found.append(Section("Tests", tuple(_tests(known))))
    if focus.content:
        found.append(Section("How the parts depend on each other", tuple(_parts(known))))
        found.append(Section("Read these first", tuple(_reading(known))))
        found.append(Section("Documentation", tuple(_documentation(known))))
    if focus.terms:
        found.append(Section("Where it is mentioned", tuple(_mentions(known, focus.terms))))
    if focus.review:
        found.extend(_reviewed(known, focus))
    found.append(Section("Not settled", tuple(_open(known)), kind="open"))
    return [section for section in found if section.lines]


def _purpose(known: Survey) -> Iterator[str]:
    for found in known.manifests:
        if found.description:
            yield f"- `{found.path}` calls it **{found.name or 'this project'}**: {found.description}"
        elif found.name:
            yield f"- `{found.path}` calls it **{found.name}**."
    for path in () if known.readmes else package_fronts(known)[:1]:
        if path in known.pages and (words := own_words(known.pages[path])):
            yield f"- `{path}` presents itself: “{words}”"
    for path in known.readmes:
        if path in known.pages:
            opening = opening_of_readme(known.pages[path])
            yield f"- `{path}` opens: “{opening}”" if opening else f"- `{path}`: {title_of_readme(known.pages[path])}"


def total_files(known: Survey) -> str:
    """The number of files, and whether it is exact."""
    count = known.environment.files or known.counted.get(EVERYTHING)
    files = _plural(max(count or 0, len(known.files)), "file")
    return f"at least {files}" if count is None else files


def _layout(known: Survey) -> Iterator[str]:
    folders = {path.rsplit("/", 1)[0] for path in known.files if "/" in path}
    yield f"- {total_files(known)} in {_plural(len(folders), 'directory')}." if folders else f"- {total_files(known)}."
    languages = languages_of(known.files)
    if languages:
        counts = ((max(count, known.counted.get(f"**/{glob_of(one)}", 0)), one.name) for one, count in languages[:5])
        shown = ", ".join(f"{count} {name}" for count, name in counts)
        yield f"- Source files by language: {shown}."
    for directory, count in known.by_directory()[:8]:
        yield f"- `{directory}/`: {_plural(count, 'file')}{_inside(known, directory)}"
    roots = [path for path in known.files if "/" not in path]
    if roots:
        yield f"- In the root: {_name_list(roots, 10)}."
    if known.environment.commit:
        yield f"- At {known.environment.commit}."


def _inside(known: Survey, directory: str) -> str:
    below = [name for name, _ in known.by_directory(2) if name.startswith(directory + "/")]
    return f", in it {_name_list([name + '/' for name in below], 6)}" if below else ""


def _build(known: Survey) -> Iterator[str]:
    commands = dict.fromkeys(f"`{command}`" for found in known.manifests for command in found.builds)
    if commands:
        yield f"- Built by {' or '.join(list(commands)[:4])}."
    for found in known.manifests:
        if facts := "; ".join(([f"**{found.name}**"] if found.name else []) + list(found.facts)):
            yield f"- `{found.path}`: {facts}"
    unread = [path for path in known.build_files if path not in known.pages]
    if unread:
        yield f"- Not read: {_name_list(unread, 6)}."


def _entries(known: Survey) -> Iterator[str]:
    started = [f"- {line} (`{found.path}`)" for found in known.manifests for line in found.starts][:_MOST_PARTS]
    yield from started
    started_lines = "\n".join(started)
    yield from (f"- {line}" for line in known.environment.starts if _started_by(line) not in started_lines)
    hits = _entry_hits(known)
    yield from (_quoted(hit) for hit in hits[:_MOST_HITS])
    if not started_lines and not known.environment.starts and not hits:
        yield "- No program begins here, as far as build files and sources tell: others import it."
    if len(hits) > _MOST_HITS:
        yield f"- … and {len(hits) - _MOST_HITS} more places like these."


def _started_by(line: str) -> str:
    """What an entry point line starts: the text after its arrow, without marks; without an arrow the line itself."""
    return line.split(" → ", 1)[1].split(" (", 1)[0].strip("`") if " → " in line else line


def _entry_hits(known: Survey) -> list[Hit]:
    files = entry_files(known)
    patterns = {language.entry for language in known.languages}
    found = [hit for search in known.searches if search.pattern in patterns for hit in search.hits if hit.path in files]
    return sorted(dict.fromkeys(found), key=lambda hit: (files.index(hit.path), hit.line))


def _parts(known: Survey) -> Iterator[str]:
    """Which part uses which, according to import lines; paths are shown without their common prefix."""
    if not any(language.imports for language in known.languages):
        return
    parts = parts_of(known.graph())
    names = parts.by_use()
    if not names:
        folders = {path.rsplit("/", 1)[0] if "/" in path else "." for path in known.own}
        one = f"All of it is one package, `{next(iter(folders))}/`: " if len(folders) == 1 else ""
        yield f"- {one or 'As far as lines that import tell, '}no file of it names another one to import it."
        return
    if parts.base:
        yield f"- All of it lies in `{parts.base}/`; paths below are within."

    def listed_short(found: Sequence[str], most: int) -> str:
        return _name_list([one.removeprefix(parts.base + "/") if parts.base else one for one in found], most)

    for one in names[:_MOST_PARTS]:
        relations = [f"used by {listed_short(parts.users[one], 5)}"] if one in parts.users else []
        relations += [f"uses {listed_short(parts.uses[one], 5)}"] if one in parts.uses else []
        yield f"- {listed_short([one], 1)}: {'; '.join(relations)}."
    if bottom := [one for one in names if one not in parts.uses]:
        yield f"- At the bottom, used and using nothing here: {listed_short(bottom, 8)}."
    if top := [one for one in names if one not in parts.users]:
        yield f"- At the top, used by nothing here: {listed_short(top, 8)}."
    if pairs := parts.mutual():
        linked = [f"{listed_short([one], 1)} and {listed_short([other], 1)}" for one, other in pairs[:4]]
        more = f", and {_plural(len(pairs) - 4, 'more pair')}" if len(pairs) > 4 else ""
        yield f"- Use each other: {'; '.join(linked)}{more}."
    if any(language.name == "Java" for language in known.languages):
        yield "- Classes of one package use each other without importing anything; that is not seen here."
    if any(known.is_cut(known.importing(language)) for language in known.languages):
        yield "- There are more lines that import than were looked at."


def _reading(known: Survey) -> Iterator[str]:
    """A numbered list of files: the reason to read each, its own description, and its definitions."""
    for number, (path, why) in enumerate(to_read(known, known.graph(), started_files(known)), 1):
        page = known.pages.get(path)
        is_code = language_of(path) is not None and path not in known.build_files
        words = own_words(page) if page and is_code else ""
        names = known.names_in(path) if is_code and not is_test(path) else ()
        reasons = [why, *([f"“{words}”"] if words else []), *([f"defines {_name_list(names, 6)}"] if names else [])]
        yield f"{number}. `{path}`: {'; '.join(reasons)}"


def _tests(known: Survey) -> Iterator[str]:
    tests = known.tests
    commands = [f"`{one}`" for one in dict.fromkeys(one for found in known.manifests for one in found.tests)]
    if not commands and any(path.endswith(".py") for path in tests):
        commands = ["`python -m pytest`"]
    run = f" Run them with {' or '.join(commands[:3])}." if commands else ""
    if not tests:
        named = f"; the build knows {' or '.join(commands[:3])}" if commands else ""
        yield f"- No test file was found by its name{named}."
        return
    folders = Counter(path.rsplit("/", 1)[0] if "/" in path else "." for path in tests)
    where = _name_list([f"{folder}/" for folder in _most_frequent(folders)[:5]], 5)
    least = "" if known.whole else "at least "
    shown = _name_list(useful_tests(known) or tests, 3)
    yield f"- {least}{_plural(len(tests), 'test file')}, in {where}; for example {shown}.{run}"


def _documentation(known: Survey) -> Iterator[str]:
    for path in known.readmes[:1]:
        if path in known.pages:
            titles = headings(known.pages[path])
            about = f": “{title_of_readme(known.pages[path])}”" if title_of_readme(known.pages[path]) else ""
            yield f"- `{path}`{about}" + (f", with sections on {'; '.join(titles)}." if titles else ".")
    near = [path for path in known.files if path.lower().endswith(_PROSE) and not is_readme(path) and not is_test(path)]
    if near:
        near.sort(key=lambda path: (not is_document(path), path.count("/"), path))
        yield f"- {_plural(len(near), 'further document')}: {_name_list(near, 6)}."


def _reviewed(known: Survey, focus: Focus) -> Iterator[Section]:
    """What was checked, and each thing a reviewer looks for that was found."""
    yield Section("Looked at", tuple(_looked_at(known, focus)), kind="step")
    yield Section("State of the repository", tuple(_state(known)), kind="step")
    for watch in review_rules(known, focus):
        if hits := _without_tests(known.found(watch.pattern)):
            yield Section(watch.title, tuple(_review_lines(known, watch, hits)), watch.severity)


def _looked_at(known: Survey, focus: Focus) -> Iterator[str]:
    languages = ", ".join(f"{count} {language.name}" for language, count in languages_of(known.sources)[:4])
    yield f"- {total_files(known)}; sources without tests: {languages or 'none'}."
    absent = [
        watch.title.lower() for watch in review_rules(known, focus) if not _without_tests(known.found(watch.pattern))
    ]
    if absent:
        yield f"- Looked out for and not found by pattern: {'; '.join(absent)}."


def _without_tests(hits: Iterable[Hit]) -> list[Hit]:
    return [hit for hit in hits if not is_test(hit.path)]


def _review_lines(known: Survey, watch: ReviewRule, hits: Sequence[Hit]) -> Iterator[str]:
    files = Counter(hit.path for hit in hits)
    least = "at least " if known.is_cut(watch.pattern) else ""
    extent = f"{least}{_plural(len(hits), 'place')} in {_plural(len(files), 'file')}"
    if len(files) > 1:
        yield f"- {extent}, most in {_name_list(_most_frequent(files), 3)}."
    read = sorted(hits, key=lambda hit: (hit.path not in known.pages, is_accompanying(hit.path), -files[hit.path]))
    yield from (_quoted(hit, hide=watch.is_secret) for hit in read[: 3 if watch.severity == "info" else 5])


def _state(known: Survey) -> Iterator[str]:
    yield from (f"- {line}" for line in known.status[:8])
    yield from (f"- commit: {line}" for line in known.log[:5])


def _mentions(known: Survey, terms: Sequence[str]) -> Iterator[str]:
    for term in terms:
        hits = tuple(dict.fromkeys(known.found(term)))
        if not hits:
            yield f"- “{term}” was not found."
            continue
        files = Counter(hit.path for hit in hits)
        least = "at least " if known.is_cut(term) else ""
        extent = f"{least}{_plural(len(hits), 'line')} in {_plural(len(files), 'file')}"
        yield f"- “{term}”: {extent}, most in {_name_list(_most_frequent(files), 4)}."
        ranked = sorted(hits, key=lambda hit: (*_weight(hit, term), -files[hit.path]))
        yield from (f"  {_quoted(hit)}" for hit in ranked[:5])
    mentioned = {hit.path for term in terms for hit in known.found(term)}
    if read := [path for path in known.pages if path in mentioned]:
        yield f"- Read around these places: {_name_list(read, 6)}."


def _weight(hit: Hit, term: str) -> tuple[bool, bool]:
    """Sort key: code before prose and tests, definitions before mentions."""
    defines = any(term.lower() in name.lower() for name in names_defined([hit.text]))
    return (is_test(hit.path) or language_of(hit.path) is None, not defines)


def _open(known: Survey) -> Iterator[str]:
    if not known.whole:
        yield "- A listing was cut short, so counts by directory and language may be too low."
    yield from (f"- A tool refused: {problem}" for problem in known.problems[:3])


def _quoted(hit: Hit, *, hide: bool = False) -> str:
    """`hide`: only the beginning of quoted strings is shown."""
    text = _QUOTED.sub(lambda found: f"{found[1]}…{found[2]}", hit.text.strip()) if hide else hit.text.strip()
    shown = text if len(text) <= 120 else text[:120] + " …"
    return f"- `{hit.path}:{hit.line}`: `{shown.replace('`', chr(39))}`"


def _name_list(names: Sequence[str], most: int) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _most_frequent(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def _plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
