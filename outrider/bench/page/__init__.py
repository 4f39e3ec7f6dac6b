"""The report as one HTML file that needs nothing else: words, tables and drawn figures."""
