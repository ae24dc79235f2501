# docker build -t sfumato .
# docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/data" sfumato release people.csv --schema people.yaml ...
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir /build && rm -r /build && useradd --uid 1000 sfumato

# The ledger lies beside the data. /data is root's until a folder is mounted there, so that a container without one
# refuses to release: a ledger inside it would be forgotten with it, and with it what was spent.
ENV SFUMATO_LEDGER=/data/ledger.sqlite
WORKDIR /data
USER sfumato
ENTRYPOINT ["sfumato"]
CMD ["--help"]
