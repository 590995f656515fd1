"""Where carts are kept."""

import json


def save(cart, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cart.lines, file)
