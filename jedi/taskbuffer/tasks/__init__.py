"""SQL about tasks: their moves, their commands, their families, their ends."""
