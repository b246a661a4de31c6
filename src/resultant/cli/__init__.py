"""The command ``resultant``.

One file per command, with the options of the command next to its function: `analyze`, `compare`,
`train`, `extract`, `probe`. Options that commands share are in `arguments`; options are parsed
without torch. `progress` shows long work, and `output` prints the summary of an analysis. `main`
finds and runs a command; other distributions add commands through the entry points
``resultant.commands``, each a `resultant.cli.main.Command`.
"""
