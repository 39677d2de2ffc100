"""One plug-in of every kind that JEDI knows, for tasks of vo `sample`."""
