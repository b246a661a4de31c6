"""Tools that know nothing of vMF.

`validation` and `arrays` check arguments; `memory` holds the byte budgets; `files` and
`tensor_files` read and write files; `device` and `distributed` describe the machine;
`termination` answers SIGTERM; `autograd` serves the special functions; `text` formats messages.
"""
