"""Jobs: their making, attempts, demand, retries, and the messages of pilots."""
