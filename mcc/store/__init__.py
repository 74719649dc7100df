"""The database: orders, leases, the journal, sessions, controls.

All methods of its parts block briefly and are safe to call from several threads; an event loop calls them through
`Offload` (docs/decisions/3). Each may raise `StoreUnavailable`.
"""
