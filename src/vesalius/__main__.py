"""Where the command line begins: ``vesalius``, and ``python -m vesalius``.

Until a verb runs, an interrupt ends the process at once and in silence, as it does programs that
know nothing of it. Python would show the import that it was in the middle of.
"""

import _signal  # built in; importing signal takes a hundredth of a second

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not ignored, as by nohup
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from vesalius.cli import main

if __name__ == "__main__":
    main()
