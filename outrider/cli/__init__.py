"""The `outrider` command line: one file for each command.

Only generated text and answers go to standard output; notices, progress, statistics and faults
go to standard error. Exit codes are listed in `terminal.ExitCode`.
"""
