"""`python -m tcplab`, the same as `tcplab`."""

import sys

from tcplab.cli.main import main

sys.exit(main())
