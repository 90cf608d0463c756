"""`python -m tcplab.cc`: see compare.py."""

import sys

from tcplab.cc.compare import main

sys.exit(main())
