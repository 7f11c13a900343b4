"""The tests of the instruments that come with apass."""
