"""SQL about jobs, from their generation to the archive."""
