"""Ends of jobs: what they mean for files, datasets, retries and job sets of events."""
