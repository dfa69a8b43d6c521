"""Making one run, anywhere: executors, processes of their own, programs and servers outside Python."""
