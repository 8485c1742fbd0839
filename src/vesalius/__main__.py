"""Where the command line begins: ``vesalius``, and ``python -m vesalius``.

Until a verb runs, an interrupt ends the process at once and in silence, as it does programs that
know nothing of it. Python would show the import that it was in the middle of.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as by nohup
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from vesalius.cli import main

if __name__ == "__main__":
    main()
