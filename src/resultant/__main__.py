"""``python -m resultant`` is the command ``resultant``."""

import sys

from resultant.cli.main import main

sys.exit(main())
