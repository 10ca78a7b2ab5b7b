"""What a run came to: metrics of one, sweeps over many."""
