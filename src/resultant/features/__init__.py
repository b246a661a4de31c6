"""Feature files of every kind as rows with labels."""
