# JEDI with its own database, or with the one that JEDI_DATABASE_URL names (see compose.yaml).
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY panda panda
COPY jedi jedi
COPY migrations migrations
COPY config config
COPY examples examples
RUN python -m venv /opt/jedi && /opt/jedi/bin/pip install --no-cache-dir ./client '.[plot]' ./panda

FROM python:3.12-slim
COPY --from=build /opt/jedi /opt/jedi
RUN useradd --uid 10001 --create-home --home-dir /var/lib/jedi-home --shell /usr/sbin/nologin jedi
USER 10001
ENV PATH=/opt/jedi/bin:$PATH JEDI_HOME=/var/lib/jedi-home/home
VOLUME /var/lib/jedi-home
# SIGTERM lets running jobs end first; give it time: `docker stop --time 120`.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["jedi", "status"]
CMD ["jedi", "up"]
