"""The tests of apass, laid out as the package is."""
