"""One plug-in of every kind that JEDI knows: how tasks of vo `sample` are treated otherwise."""
