"""Entry point of `python -m tcplab.pilot`."""

import sys

from tcplab.pilot.cli import main

sys.exit(main())
