import unittest

from till.cart import Cart


class CartTest(unittest.TestCase):
    def test_total(self):
        cart = Cart()
        cart.add("tea", 250, 2)
        self.assertEqual(cart.total(), 500)
