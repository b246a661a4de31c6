"""The commands that this distribution adds to ``resultant``."""

from resultant.cli.main import Command

VERIFY = Command(
    "resultant.cli.options:Verify",
    "resultant_reproduction.theory.command:verify",
    "check the claims of the paper",
)
REPRODUCE = Command(
    "resultant.cli.options:Reproduce",
    "resultant_reproduction.cli:reproduce",
    "the paper's tables and figures beside ours",
)
