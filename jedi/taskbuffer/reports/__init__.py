"""SQL that people read: lists, counts, explanations. Nothing is written here."""
