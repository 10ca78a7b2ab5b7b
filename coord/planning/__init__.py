"""Who serves which zone: candidates, the planners, queues, planning again, other people's planners."""
