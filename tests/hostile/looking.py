"""A look at a workspace in a process of its own: WORKSPACE PRIVATE FILE…; what each file brings, then a listing."""

import os
import sys

from drone.sandbox.places.paths import PathDenied, Workspace
from drone.sandbox.places.private import Private


def main(root: str, private: str, *files: str) -> None:
    workspace = Workspace(root, private=Private([private]))
    for file in files:
        try:
            with workspace.open_file(file) as opened:
                print(opened.read())
        except PathDenied:
            print("denied")
    directory = workspace.open_directory(".")
    print(sorted(entry.name for entry in workspace.entries(directory)))
    os.close(directory)


if __name__ == "__main__":
    main(*sys.argv[1:])
