"""The configuration of MCC and drones: its files, what each file may set, and which files the user has trusted."""
