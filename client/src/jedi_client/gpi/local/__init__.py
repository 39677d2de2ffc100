"""Backend Local: jobs run on this machine, by a helper process that survives the session."""
