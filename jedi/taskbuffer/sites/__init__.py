"""SQL about sites, their storage, their pilots, and the decisions that chose them."""
