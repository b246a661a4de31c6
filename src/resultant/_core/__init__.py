"""Tools that know nothing of vMF.

`validation` and `arrays` check arguments, by the ranges of `limits`; `memory` holds the byte
budgets; `files` and `tensor_files` read and write files; `device` and `distributed` describe the
machine; `threads` keeps small fits on one thread; `termination` answers SIGTERM; `modes` asks torch
for its state, `autograd` serves the special functions; `text` formats messages.
"""
