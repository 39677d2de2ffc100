"""The monitor: web pages over the door's operations, with the caller's own rights. A page sends no
query of its own (docs/decisions/monitor.md)."""
