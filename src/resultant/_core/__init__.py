"""Tools that know nothing of vMF: checks of arguments, files, devices and processes, messages."""
