"""How much anybody on the network may ask of the server at once. Beyond it are refusals that say what to do."""

MOST_BODY = 64 * 1024  # bytes of a question
MOST_CELLS = 10**9  # that a question looks at, counted before anything is laid out
MOST_NUMBERS = 25_000  # with an interval each, in one answer
MOST_SURE_NUMBERS = 2_500  # with an interval of a kind that takes longer: guaranteed, or all at once
MOST_POINTS = 4_096  # of a chart: more cannot be told apart on a screen
MOST_COARSE_POINTS = 1_600  # of a chart that had more: neighbours are taken together until so many are left
MOST_BINS = 200  # of one attribute then
MOST_WAITING = 512  # different questions that wait for their turn
MOST_KEPT_BYTES = 64 * 2**20  # of answers that are kept for whoever asks the same
MOST_KEPT_ANSWER = 4 * 2**20  # of one of them
MOST_CONNECTIONS = 2_000
WORKERS = 2  # threads that answer: Python runs one at a time, the second one keeps short questions going
HEAD_SECONDS = 10.0  # until the head of a request is there, from when the connection or the request began
BODY_SECONDS = 10.0  # until all of a body is there
SEND_SECONDS = 30.0  # until a client has taken a piece of an answer
ANSWER_SECONDS = 30.0  # until an answer is found
KEEP_ALIVE_SECONDS = 30  # between two requests of one connection

# Of PostgreSQL's protocol:
MOST_MESSAGE = 2**20  # bytes of a message
MOST_STARTUP = 10_000  # bytes of the first message, as PostgreSQL has it
MOST_SESSIONS = 200  # connections at once
MOST_PREPARED = 500  # statements that a connection may keep, and portals
MOST_KEPT_BY_SESSION = 8 * 2**20  # bytes of its statements, and of the values and rows of its portals
STARTUP_SECONDS = 10.0  # until a client has said who it is
MESSAGE_SECONDS = 30.0  # until all of a message is there, from its first byte
IDLE_SECONDS = 3600.0  # between two messages of one connection
CATALOGUE_SECONDS = 1.5  # of the processor, until the catalogue has answered
