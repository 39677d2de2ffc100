"""JEDI: tasks in, jobs out; a task-level workload broker on PostgreSQL."""

__version__ = "0.2.0"
