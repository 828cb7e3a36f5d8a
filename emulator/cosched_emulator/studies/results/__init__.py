"""The results of a study: its table, intervals over seeds, harm, texts and pictures."""
