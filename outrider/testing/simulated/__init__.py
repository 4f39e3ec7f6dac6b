"""The services as a simulation in virtual time, to try a policy on thousands of seconds."""
