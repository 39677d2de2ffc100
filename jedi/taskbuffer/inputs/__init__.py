"""SQL about datasets and their contents."""
