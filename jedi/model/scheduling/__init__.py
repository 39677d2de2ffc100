"""Work queues, their criteria, resource types and priorities."""
