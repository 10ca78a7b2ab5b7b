"""Why this zone and not that one, and the smallest change that would win."""
