"""What came of a run, and what to do with it: use, predict, verify, compare, store, export."""
