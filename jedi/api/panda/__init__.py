"""PanDA's wire, translated at the rim: bodies, names and codes of its clients become calls of
service/, and answers become theirs (docs/panda.md)."""
