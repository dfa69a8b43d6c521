"""Numbers as a person would say them."""


def duration(seconds: float) -> str:
    """``0.2 s``, ``45 s``, ``3.5 min``, ``7.1 h``, ``4.0 days``."""
    for size, unit in [(86400, "days"), (3600, "h"), (60, "min")]:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
