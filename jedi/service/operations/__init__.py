"""Everything that the outside may ask for, one operation a function, in one table."""
