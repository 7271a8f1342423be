"""The report as text: numbers, table columns, sentences, tables for a terminal."""
