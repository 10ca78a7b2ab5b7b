"""`python -m droveway` is the same as `droveway`."""

from droveway.start import main

main()
