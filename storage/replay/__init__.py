"""Reading on: merge, cursors, following a live ledger, export."""
