"""What no program in a workspace may leave behind: protected names, git directories, setuid files."""
