"""The commands jedi-task and jedi-job."""
