"""Who is at the door, by which credential, with what right: sign-ins, people, tokens, the audit;
the guard of requests, scopes of routes, and whose things are.
"""
