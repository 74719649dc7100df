"""Tools that read, search and change the files of a workspace."""
