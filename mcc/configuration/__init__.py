"""Whose word counts: the files that configure MCC and drones, what each may say, and which ones their user trusted."""
