"""The command line of droveway."""
