"""The command ``resultant``.

One file per command, with the options of the command next to its function: `analyze`, `compare`,
`train`, `extract`, `probe`, `import_proco`. Options are parsed without torch. `main` finds and runs
a command; other distributions add commands through the entry points ``resultant.commands``, each a
`resultant.cli.main.Command`.
"""
