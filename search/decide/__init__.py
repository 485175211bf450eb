"""From samples to tables: what may be claimed, rows, the file that holds them."""
