"""What belongs to the operating system: the home, processes, log files."""
