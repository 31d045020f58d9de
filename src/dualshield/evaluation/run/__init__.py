"""How an evaluation is carried out: pieces of work, worker processes, a folder of results that can be resumed."""
