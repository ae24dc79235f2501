"""Limits on what clients may ask of the server at once; beyond them are refusals that say what to do."""

from sfumato.frozen import dataclass

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
HEAD_SECONDS = 10.0  # until the head of a request is there, from when the connection or the request began
BODY_SECONDS = 10.0  # until all of a body is there
SEND_SECONDS = 30.0  # until a client has taken a piece of an answer
KEEP_ALIVE_SECONDS = 30  # between two requests of one connection


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of one question to the server.

    Quick workers are never held for longer than `quick_seconds` of CPU: a question that needs more goes on, or begins
    again, as one of the few slow ones, which have what the others leave of the processors.
    """

    answer_seconds: float = 30.0  # until an answer is found, waiting included; a worker is killed then
    quick_workers: int = 2
    quick_seconds: float = 0.25  # of CPU
    slow_workers: int = 2
    slow_seconds: float = 5.0  # that a slow question has for certain, also where others wait for its place
    most_slow_waiting: int = 16
    memory: int = 128 * 2**20  # bytes that a worker may add to those that it began with
    memory_per_cell: int = 24  # bytes more for each cell of the largest release that lays its cells out
    worker_questions: int = 2_000  # after which a worker is replaced
    worker_growth: int = 32 * 2**20  # bytes that it may hold between two questions
    remembered_seconds: float = 60.0  # for which a question whose worker was stopped is refused at once
    most_remembered: int = 4_096


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
