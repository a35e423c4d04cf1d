"""What made the embedded models: their data, vocabulary, trainer, export and evaluation."""
