"""Tools that know nothing of vMF: validation, arrays, files, devices, process groups."""
