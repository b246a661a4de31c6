"""The command ``resultant``, one file per command: `analyze`, `compare`, `train`, `extract`,
`tune`, `predict`, `export` and `sums` (which has `merge` and `forget` too); `main` finds
and runs it, and explains errors. Shared options are in `arguments`, and are parsed without torch;
`progress` shows long work."""
