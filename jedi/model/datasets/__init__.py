"""Datasets and files, as rooms hand them to each other."""
