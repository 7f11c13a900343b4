"""The parts of Relay's printer and parser; what others use is in `apass.relay.text.printing.printer` and `apass.relay.parser`."""
