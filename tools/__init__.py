"""Generators of schema/ and of pages in docs/: `make generate`. They are in no distribution."""
