"""One module a command, imported when that command runs; the list with its one-line texts is in `droveway.main`."""
