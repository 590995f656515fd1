import unittest

from till import money


class MoneyTest(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(money.parse("12.30"), 1230)

    def test_show(self):
        self.assertEqual(money.show(1205), "12.05")
