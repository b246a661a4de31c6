"""Tools that know nothing of vMF.

`validation` and `arrays` check arguments; `hold_out` splits rows; `chunks` holds the byte budgets,
`memory` that of the machine; `files`, `tensor_files`, `network_files` and `json_values` read and
write files; `device`, `distributed` and `versions` describe the machine; `termination` answers
SIGTERM; `autograd` serves the special functions; `text` formats messages; `vision` imports
torchvision.
"""
