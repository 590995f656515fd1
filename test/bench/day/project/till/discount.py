"""What is taken off."""


def percent(cents, rate):
    return cents - cents * rate // 100
