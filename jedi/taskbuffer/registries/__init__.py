"""Users' registries of jobs: drafts and submitted jobs, their subjobs, folders, and the lease."""
