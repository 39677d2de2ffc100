"""Pages by subject."""
