"""What holds the bytes: one protocol, two engines, and readers of their files."""
