"""What another policy would do to a site's jobs: its log under candidates and assumptions, as one study, and the answer in words.

The command ``whatif`` asks it (docs/site.md). Open first: `question`, which makes the study; `candidates` declares what is
compared, `answer` reads the study's result, `answer_text` says it, `measures` are the figures that a study does not have.
"""
