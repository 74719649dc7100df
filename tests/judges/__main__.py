"""Asks all judges, and writes what they say into docs/judges.md.

    python -m tests.judges            # options are pytest's; a part of the tests writes no table

Exit codes: 0 no row got worse; 1 one did, or a test of a judge failed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.judges.scores import TABLE, Scores, judged, page, read

HERE = Path(__file__).parent
LONG = "cut_doors.py"
"""What takes minutes, and is not among the tests of `make test`."""


def main(arguments: Sequence[str]) -> int:
    counting = Scores()
    asked = [str(HERE), "-o", f"python_files=test_*.py {LONG}", *arguments]
    ended = int(pytest.main(asked, [counting]))
    if arguments:
        return ended
    before = read(TABLE.read_text()) if TABLE.exists() else []
    scores, worse = judged(before, counting.scores())
    TABLE.write_text(page(scores))
    print("\n".join(score.row for score in scores))
    for sentence in worse:
        print(f"worse than before: {sentence}")
    return 1 if worse else ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
