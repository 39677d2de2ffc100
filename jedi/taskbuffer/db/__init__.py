"""Connections, COPY and locks: the way to the database."""
