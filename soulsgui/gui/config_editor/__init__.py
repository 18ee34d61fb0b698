"""The editor of config.yaml: as a form, as text, and as a table of differences.

`draft` and `problems` are pure, the rest are widgets and models. Page and dialog hold the same editor.
"""
