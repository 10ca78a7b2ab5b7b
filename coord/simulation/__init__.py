"""A fleet over time: its state, what a tick does, demand, events and faults."""
