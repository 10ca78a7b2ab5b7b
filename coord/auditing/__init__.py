"""A run checked: structure, decisions made again, ranges, processes, two runs compared."""
