"""The database: orders, leases, the journal, sessions, controls.

All methods of its parts are synchronous, short, and safe to call from several threads; an event loop calls them through
`Offload` (docs/decisions/3). Every one of them may raise `StoreUnavailable`.
"""
