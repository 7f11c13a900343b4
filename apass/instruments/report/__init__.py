"""`ReportInstrument`, the record that it makes, and the HTML page of a record."""
