"""Many runs, durably: sessions, the journal, warm starts, the driver of executors, progress, ``infer``."""
