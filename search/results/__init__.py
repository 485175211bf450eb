"""What was measured: samples, their statistics, the journal, cells."""
