"""Run an evaluation: pieces of work, worker processes, and a folder of results that can be resumed."""
