"""Run the command line as `python -m zoosim`."""

import signal

# Until the command line answers it, Ctrl-C ends the process without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from zoosim.cli import main  # noqa: E402

main()
