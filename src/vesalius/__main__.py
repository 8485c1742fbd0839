"""``python -m vesalius`` is the command line."""

from vesalius.cli import main

main()
