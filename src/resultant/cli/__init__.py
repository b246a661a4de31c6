"""The command ``resultant``, one file per command with its options: `analyze`, `compare`, `train`,
`extract`, `probe`.

Options that commands share are in `arguments`; options are parsed without torch. `progress` shows
long work, and `main` finds and runs a command, and explains its errors.
"""
