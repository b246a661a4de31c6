"""``python -m resultant`` is the command ``resultant``."""

import sys

from resultant.cli import main

sys.exit(main())
