"""The asynchronous trainer of one machine, from a Python program, by the names of Border's (its crate
`border-async-trainer`): sampling processes around an ordinary off-policy trainer.
"""
