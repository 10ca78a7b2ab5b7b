"""The entry point: from its first line on SIGINT and SIGTERM end the program in order, with exit code 130."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; a signal that comes while modules are still being loaded is no traceback."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from droveway.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        os.write(2, b"error: interrupted\n")
        sys.exit(130)
