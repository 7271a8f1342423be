"""BigCodeBench: functions that use libraries, with their `unittest` cases."""
