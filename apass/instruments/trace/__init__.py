"""`TraceInstrument`, with the tracks and the event file that it uses."""
