"""What cannot be compiled is left to torch, with a warning that says why."""

import os
import unittest
import warnings
from unittest import mock

from train import native


class Library(unittest.TestCase):
    def check(self, compiler, words):
        with mock.patch.dict(os.environ, {"CXX": compiler}), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertIsNone(native.library("delta"))
        self.assertEqual(len(caught), 1)
        self.assertRegex(str(caught[0].message), words)

    def test_no_compiler(self):
        self.check("/no/such/compiler", "delta is torch's, which is slower.*No such file")

    def test_what_a_compiler_says(self):
        self.check("false", "delta is torch's.*exit status 1")
