"""Entry point of `python -m tcplab.studies.pilot`."""

import sys

from tcplab.studies.pilot.cli import main

sys.exit(main())
