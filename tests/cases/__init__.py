"""Small programs that other tools read wrongly, each of which prints the values it passed.

``programs`` has the sources, :mod:`.runner` builds and traces them, :mod:`.test_cases` says what has to come out.
``python -m tests.cases`` runs every program with every compiler of the machine.
"""
