"""Names that tools and models give to the same argument, and to an envelope around all of them."""

ENVELOPES = frozenset(
    {"arguments", "args", "input", "inputs", "parameters", "params", "kwargs", "toolinput", "toolarguments", "toolargs"}
)
"""Names, in plain spelling, of an object around the arguments of a call."""

RESULT_ENVELOPES = frozenset({"result", "results", "output", "report", "answer", "response", "finalresult"})
"""Further ones around a result."""

NAMES_OF_THE_TOOL = frozenset({"name", "tool", "toolname", "function", "functionname", "recipientname"})
"""Names of a property that names the tool itself."""

SAME_MEANING: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        "path file filepath filename absolutepath relativepath targetfile",
        "path dir directory dirpath directorypath folder",
        "paths files filepaths filenames",
        "old oldstring oldstr oldtext search searchstring",
        "new newstring newstr newtext replace replacement",
        "content contents filetext filecontent filecontents text",
        "command cmd shellcommand commandline",
        "cwd workdir workingdir workingdirectory directory dir",
        "pattern regex regexp query searchpattern searchquery q",
        "pattern glob globpattern",
        "glob globpattern include includepattern filepattern",
        "patch diff patchtext unifieddiff input",
        "startline linestart firstline fromline",
        "endline lineend lastline toline",
        "source src from sourcepath frompath oldpath",
        "target destination dest dst to targetpath topath newpath destinationpath",
        "message commitmessage msg",
        "ref commit revision rev sha hash commithash",
        "background runinbackground isbackground",
        "url uri link",
        "limit maxresults numresults",
        "depth maxdepth",
        "contextlines context",
        "choices options",
        "question prompt",
        "job jobid",
        "id taskid",
        "title subject description",
        "detail description details",
        "name skill skillname rulename planname",
        "agenttype subagenttype agent agentname role",
        "prompt task instructions",
        "recordid id",
        "maxconcurrency concurrency",
    )
)
"""Names in plain spelling that tools give to the same argument, so that models confuse them. Names whose units or sense
differ between tools (`timeout`, `offset`, `case_insensitive`) are not among them."""

_LONGEST_NAME = 100


def plain_name(name: str) -> str:
    """`name` without the marks by which camel case, snake case and kebab case differ."""
    return name[:_LONGEST_NAME].replace("_", "").replace("-", "").lower()


def mean_the_same(one: str, other: str) -> bool:
    """Whether two names in plain spelling are given to the same argument."""
    return any(one in names and other in names for names in SAME_MEANING)
