"""Speed, always beside a floor measured in the same run: `make bench`."""
