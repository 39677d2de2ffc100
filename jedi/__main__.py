"""`python -m jedi` is `jedi`."""

from jedi.cli.jedi import main

main()
