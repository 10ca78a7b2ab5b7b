"""Publishing a ledger as tiles and bundles, and reading it back."""
