"""Amounts in cents."""


def parse(text):
    """Return the cents of a text such as 12.30."""
    whole, _, part = text.partition(".")
    return int(whole) * 100 + int((part + "00")[:2])


def show(cents):
    """Return cents as a text such as 12.30."""
    return f"{cents // 100}.{cents % 100:02d}"
