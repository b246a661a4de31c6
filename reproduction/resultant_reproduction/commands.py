"""The commands that this distribution adds to ``resultant``.

``resultant --help`` reads this module, so it imports nothing heavy.
"""

from resultant.cli.main import Command

VERIFY = Command(
    "resultant_reproduction.options:Verify",
    "resultant_reproduction.verify:verify",
    "check the claims of the paper",
)
IMPORT_PROCO = Command(
    "resultant_reproduction.options:ImportProco",
    "resultant_reproduction.import_proco:import_proco",
    "convert a checkpoint of ProCo",
)
PROBE = Command(
    "resultant_reproduction.probe:Probe",
    "resultant_reproduction.probe:probe",
    "accuracy of linear probes on features",
)
REPRODUCE = Command(
    "resultant_reproduction.options:Reproduce",
    "resultant_reproduction.reproduce:reproduce",
    "compare the paper's tables and figures with ours",
)
