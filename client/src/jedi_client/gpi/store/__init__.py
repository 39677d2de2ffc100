"""Stores of registries: a SQLite file on this machine (`sqlite_store`), or the service (`remote`).

Source: docs/reference/ganga.md#writers.
"""
