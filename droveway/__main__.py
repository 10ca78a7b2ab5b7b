"""`python -m droveway` is the same as `droveway`."""

from droveway.main import main

main()
