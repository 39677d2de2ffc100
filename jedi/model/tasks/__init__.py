"""Tasks: the dictionary that a user submits, its checks, and the refined task."""
