"""What stands between a connection and a question: bodies, headers, slow clients, the files of the page."""
