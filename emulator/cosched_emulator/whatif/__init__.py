"""What another policy would do to a site's jobs: its log under candidates and assumptions, as one study, and the answer in words.

The command ``whatif`` asks it (docs/site.md). Open first: `question`, which makes the study; `candidates` and `levers` declare
what is compared, `answer` reads the study's result and has the gate that a gain must pass, `answer_lead` says it in ten lines,
`answer_text` in full, `answer_page` as a page; `measures` are the figures that a study does not have.
"""
