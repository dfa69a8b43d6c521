"""Numbers as a person would say them, and text of others as a terminal may show it."""

import math
import unicodedata


def duration(seconds: float) -> str:
    """``0.2 s``, ``45 s``, ``3.5 min``, ``7.1 h``, ``4.0 days``."""
    for size, unit in [(86400, "days"), (3600, "h"), (60, "min")]:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def nats(x: float, digits: int = 4) -> str:
    """A logarithm to so many digits after the point; a large one, which has none there, as a power of ten."""
    return f"{x:.{digits}f}" if abs(x) < 1e9 else f"{x:.{digits + 6}g}"


def value_and_sd(value: float, sd: float) -> str:
    """A logarithm with its standard deviation to two digits, and no more of its own than that: ``1.191 ± 0.016``."""
    if not sd < 100.0:
        return f"{nats(value, 0)} ± more than 100"
    digits = max(1 - math.floor(math.log10(sd)), 1) if sd > 0.0 else 6
    return f"{nats(value, digits)} ± {sd:.{digits}f}"


def printable(text: str) -> str:
    """Text of a simulator or a file, with what a terminal would obey spelled out; lines and tabs stay."""
    return "".join(c if c in "\n\t" or not steers(c) else c.encode("unicode_escape").decode() for c in text)


def steers(character: str) -> bool:
    """Whether it is no letter, mark or blank but an order: control and format characters, ends of lines."""
    kind = unicodedata.category(character)
    return kind[0] == "C" or kind in ("Zl", "Zp")


def one_line(text: str, most: int = 300) -> str:
    """Text of others within a sentence of ours: on one line, and not longer than ``most`` characters."""
    line = " ".join(printable(text[: 2 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def brief(message: str) -> str:
    """What a failed run or an outage said, in one line: the first, and the last of what its program printed."""
    first, *others = message.strip().splitlines() or ["no message"]
    printed = [line.strip() for line in others if line.startswith("  ") and line.strip()]
    return one_line(f"{first.rstrip('.')}: {printed[-1]}" if printed else first)


def described(error: BaseException) -> str:
    """An exception by its type and message, also where asking for the message raises another."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as another:
        return f"{type(error).__name__}, whose message cannot be had: __str__ raised {type(another).__name__}"
