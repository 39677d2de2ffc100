"""Memory of a process of the service between calls: of pilots, consumers, waiting requests."""
