"""What is printed."""

from till import money


def lines(cart):
    return [f"{count} x {name} {money.show(cents)}" for name, cents, count in cart.lines]
