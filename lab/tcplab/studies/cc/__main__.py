"""`python -m tcplab.studies.cc`: see compare.py."""

import sys

from tcplab.studies.cc.compare import main

sys.exit(main())
