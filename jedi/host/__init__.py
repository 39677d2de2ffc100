"""Things of the operating system: the home, processes, log files."""
