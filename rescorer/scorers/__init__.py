"""One scorer a file or folder; none imports another one."""
