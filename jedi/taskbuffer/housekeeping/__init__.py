"""SQL that keeps the database in shape: dogs, retention, checks, knobs."""
