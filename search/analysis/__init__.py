"""What one looks at: bench, verify, comparisons, timelines, reports, validation of models."""
