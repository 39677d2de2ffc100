"""SQL about events that are handed out while jobs run."""
