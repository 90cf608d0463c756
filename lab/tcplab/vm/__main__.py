"""`python -m tcplab.vm`."""

import sys

from tcplab.vm.cli import main

if __name__ == "__main__":
    sys.exit(main())
