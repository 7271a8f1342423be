"""From a suite to its cells: their ids, what is stored of them, what is missing, what it costs."""
