"""Tests of the folder: python -m unittest discover -t .. -s train/tests, from engine/embedded."""
