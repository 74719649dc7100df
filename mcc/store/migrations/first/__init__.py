"""The tables of the first schema, as they were made: later migrations change them, these files never change."""
