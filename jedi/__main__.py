"""`python -m jedi` is `jedi`: no file of the current directory takes the place of a module."""

import sys

if not sys.flags.safe_path:  # without -P, Python has put that directory first
    del sys.path[0]

from jedi.cli.jedi import main

main()
