"""SQL about work queues, shares, caps, and the order in which tasks get jobs."""
