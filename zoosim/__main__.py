"""Run the command line as `python -m zoosim`."""

from zoosim.cli import main

main()
