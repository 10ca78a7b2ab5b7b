"""What the ledger holds of a run, in bytes: frames and their chain, inputs, catalogs."""
