"""The pages of docs/reference: each is written out of the code that it describes.

`python -m scripts.reference` writes them, and docs/states.md; `--check` only says which differ.
"""
