"""The command line: case files, the check before a run, status, live reports."""
