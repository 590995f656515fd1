"""What is put on."""

RATES = {"food": 7, "other": 19}


def with_tax(cents, kind):
    return cents + cents * RATES[kind] // 100
