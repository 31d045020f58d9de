"""What an evaluation is asked to do: its parameters, its protocol, its images."""
