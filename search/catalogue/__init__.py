"""What can be measured: algorithms, parameters and variants, as the templates say."""
