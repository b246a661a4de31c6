"""``python -m resultant`` is the command ``resultant``."""

from resultant.cli.main import execute

execute()
